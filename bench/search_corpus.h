#pragma once
// The texts that search is measured on: sources of Debian packages, and git repositories made of
// them.
#include <memory>
#include <string>
#include <vector>

#include "search/index/segment.h"
#include "search/source/document.h"

namespace warren::bench {

using SegmentPtr = std::shared_ptr<const search::Segment>;

// Files of at most 2 MB; the other programs get the same limit.
inline constexpr search::SourceLimits file_limits{.file_bytes = 2u << 20};

struct Corpus {
  std::string package;  // "linux"
  std::string folder, repository;
  bool is_linux() const { return package == "linux"; }
};
// Downloads and packs it if necessary.
Result<Corpus> fetch_corpus(const std::string& package);

// As one segment: first without its index, then with it.
struct Whole {
  SegmentPtr scannable, indexed;
  std::size_t text_bytes = 0;  // over all files
};
Result<Whole> load_whole(const Corpus& corpus);
// One segment for each second-level folder, such as "drivers/net", and one for each first-level
// folder, such as "fs", with the files directly in it.
Result<std::vector<SegmentPtr>> load_repos(const Corpus& corpus);

}  // namespace warren::bench
