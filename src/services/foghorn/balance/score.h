#pragma once
// The formula, in the integers of existing deployments: everything is cut, nothing is rounded.
// Where theirs wraps around (more memory used than there is, products beyond 2^64), ours stops at
// the end of the range. Weights are far below 2^60.
#include <algorithm>
#include <cstdint>

#include "services/foghorn/balance/table.h"

namespace warren::balance {

// Cut to a whole number; 0 for what is negative or no number.
std::uint64_t whole(double value);
std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b);

std::uint64_t cpu_score(std::uint64_t weight, double percent);
std::uint64_t ram_score(std::uint64_t weight, double used, double max);

// What is left of the weight when `used` of `limit` is used; the limit is not 0.
inline std::uint64_t free_part(std::uint64_t weight, std::uint64_t used, std::uint64_t limit) {
  if (used >= limit) return 0;
  std::uint64_t product = 0;
  if (!__builtin_mul_overflow(used, weight, &product)) return weight - product / limit;
  __extension__ using Wide = unsigned __int128;
  return weight - static_cast<std::uint64_t>(Wide{used} * weight / limit);
}

// A place on the globe, with what a distance needs of it.
struct Point {
  double sin_latitude = 0, cos_latitude = 0, longitude = 0;  // in radians
  bool is_known = false;

  static Point of(double latitude, double longitude);
};
double distance(const Point& a, const Point& b);  // both known
// What an unknown place gets differs between the policies.
inline std::uint64_t geo_score(std::uint64_t weight, double distance) {
  return weight - std::min(weight, whole(static_cast<double>(weight) * distance));
}

// The score after its tags; 0 when they take all of it.
std::uint64_t adjusted(std::uint64_t score, std::int64_t adjustment);
std::int64_t saturating_sum(std::int64_t a, std::int64_t b);

}  // namespace warren::balance
