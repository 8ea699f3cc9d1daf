#pragma once
// What `warren search` searches: stored segments, updated to the current state of the files.
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cli/search/place.h"
#include "search/store/cache.h"

namespace warren::cli {

struct SearchIndexTerms {
  search::UpdateTerms update = {};
  bool wants_symbols = false;
  bool uses_cache = true;
  std::string cache_folder;
  std::function<void(double part, const std::string& text)> progress;
};

struct SearchIndex {
  search::SegmentListPtr segments;
  std::string origin;                   // "kept", "kept, with what changed", "made"
  std::string warning = {};             // why nothing was or will be stored
  std::chrono::nanoseconds took = {};   // to find, load and build
  std::function<Result<>()> keep = {};  // stores what is new; empty if nothing is
};

Result<SearchIndex> open_search_index(const SearchPlace& place, const SearchIndexTerms& terms);

}  // namespace warren::cli
