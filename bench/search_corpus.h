#pragma once
// What searching is measured on: sources of Debian packages, and git repositories of them.
#include <memory>
#include <string>
#include <vector>

#include "search/index/segment.h"
#include "search/source/document.h"

namespace warren::bench {

using SegmentPtr = std::shared_ptr<const search::Segment>;

// Files of at most 2 MB, as the others are told as well.
inline constexpr search::SourceLimits file_limits{.file_bytes = 2u << 20};

struct Corpus {
  std::string package;  // "linux"
  std::string folder, repository;
  bool is_linux() const { return package == "linux"; }
};
// Fetched and packed when they are not there.
Result<Corpus> fetch_corpus(const std::string& package);

// As one segment: first without its index, then with it.
struct Whole {
  SegmentPtr scannable, indexed;
  std::size_t text_bytes = 0;  // of all files
};
Result<Whole> load_whole(const Corpus& corpus);
// As one segment for each folder of the second level, "drivers/net", and each of the first, "fs",
// for the files that lie there.
Result<std::vector<SegmentPtr>> load_repos(const Corpus& corpus);

}  // namespace warren::bench
