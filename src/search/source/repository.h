#pragma once
// A git repository, read through git's own plumbing: first what there is, then the texts.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "search/source/document.h"

namespace warren::search {

struct TreeEntry {
  std::string path;
  std::string blob;
  std::size_t size = 0;
  std::vector<std::uint16_t> branches;
};

struct Listing {
  Source source;                   // with everything that can be left out unread
  std::vector<TreeEntry> entries;  // each path and blob once, in the order of the tree
};

Result<Listing> list_repository(const std::string& path, std::vector<std::string> refs,
                                const SourceLimits& limits);
// Takes the texts of entries, each blob read once; binary ones are added to `skipped`.
Result<> read_entries(const std::string& path, std::span<const TreeEntry> entries,
                      std::vector<Skipped>& skipped, const Take& take);

}  // namespace warren::search
