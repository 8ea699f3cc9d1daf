#pragma once
// How deep repositories are searched when there is more than anyone wants to see.
//
//   depth         0    1    2     3   …  last     of each repository: files until there are
//   wanted        1    2    4     8   …  most     1, 2, 4, … matches, the last depth most_matches
//   repository a  x    xx   xxxx  xxxxxxx
//   repository b  x    x    x     x               (it has no more)
//   in all        2    3    5     8               the first depth with most_matches in all is where
//                                                 the search ends
//
// What counts depends only on the query and on each repository itself, so all repositories are
// searched equally deep, and none crowds out the others. It is also the same however the
// repositories are distributed over processes. At every depth a part has fewer matches than the
// whole, so it never ends before the whole. So merge_answers() has everything it needs to find the
// depth of the whole, and leaves out deeper files. The total stays bounded: the depth before had
// fewer than most_matches, and the next one at most doubles that.
//
// Rejected: one counter for all repositories. What it leaves out would depend on the other
// repositories, and the first ones would take everything. Rejected: most_matches for each
// repository, which is no useful bound for 500 of them.
#include <algorithm>
#include <bit>
#include <cstdint>

namespace warren::search {

class Depths {
 public:
  // 0: no limit, and only one depth.
  explicit Depths(std::uint64_t most_matches)
      : most_(most_matches == 0 ? UINT64_MAX : most_matches) {}

  bool are_limited() const { return most_ != UINT64_MAX; }
  std::uint64_t most() const { return most_; }
  int count() const { return are_limited() ? static_cast<int>(std::bit_width(most_ - 1)) + 1 : 1; }
  // After this many matches in a repository, no more of its files are examined.
  std::uint64_t wanted(int depth) const {
    return depth + 1 >= count() ? most_ : std::uint64_t{1} << depth;
  }
  // The smallest depth at which a file counts if its repository has this many matches before it.
  // They must be fewer than most().
  int of(std::uint64_t matches_before) const {
    return are_limited() ? static_cast<int>(std::bit_width(matches_before)) : 0;
  }

 private:
  std::uint64_t most_;
};

}  // namespace warren::search
