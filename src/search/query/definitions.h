#pragma once
// Where names are defined, according to ctags.
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "search/index/segment.h"
#include "search/query/matcher.h"
#include "search/query/watch.h"

namespace warren::search {

struct Definition {
  std::uint32_t file = 0, line = 0;
  std::string_view kind;
  std::string_view name;
};

// The definitions of exactly this name (in any case if the pattern says so), by file and line. At
// most the first thousand.
std::vector<Definition> definitions_named(const Segment& segment, const Pattern& pattern);
// Those of every name with a match, by file and line. Incomplete if the watch ends it.
std::vector<Definition> definitions_matching(const Segment& segment,
                                             const std::shared_ptr<const Matcher>& matcher,
                                             Watch& watch);

}  // namespace warren::search
