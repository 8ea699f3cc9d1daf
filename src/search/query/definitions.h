#pragma once
// Where names are defined, as ctags has it.
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

// Both are by file and line.
// Of this very name, in any case if the pattern says so: the first thousand.
std::vector<Definition> definitions_named(const Segment& segment, const Pattern& pattern);
// Of every name that has a match; not all of them when the watch ends it.
std::vector<Definition> definitions_matching(const Segment& segment,
                                             const std::shared_ptr<const Matcher>& matcher,
                                             Watch& watch);

}  // namespace warren::search
