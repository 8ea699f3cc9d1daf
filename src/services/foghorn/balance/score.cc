#include "services/foghorn/balance/score.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "services/foghorn/balance/choose.h"

namespace warren::balance {

namespace {

constexpr double degrees_per_radian = 57.29577951308232087684;
constexpr double per_pi = 0.31830988618379067153;
constexpr double reference_limit = 1'250'000'000;  // 10 Gbit/s, in bytes

std::uint64_t remote_bandwidth(const Weights& weights, const RemoteEdge& edge, Policy policy) {
  if (policy == Policy::fair && edge.bw_limit >= 1) {
    auto limit = whole(edge.bw_limit);
    return free_part(weights.bw, limit - std::min(limit, whole(edge.bw_available)), limit);
  }
  auto limit = whole(reference_limit);
  auto available = std::min(whole(edge.bw_available), limit);
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{available} * weights.bw / limit);
}

std::uint64_t left(std::uint64_t weight, double part) {
  return whole(static_cast<double>(weight) * (1 - std::min(1.0, std::max(0.0, part))));
}

}  // namespace

std::uint64_t whole(double value) {
  if (!(value >= 1)) return 0;
  if (value >= 0x1p64) return std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(value);
}

std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) {
  return a + b < a ? std::numeric_limits<std::uint64_t>::max() : a + b;
}

std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

std::uint64_t cpu_score(std::uint64_t weight, double percent) {
  return percent <= 100 ? free_part(weight, whole(percent * 10), 1000) : 0;
}

std::uint64_t ram_score(std::uint64_t weight, double used, double max) {
  return max >= 1 ? free_part(weight, whole(used), whole(max)) : 0;
}

bool is_place(double latitude, double longitude) {
  return std::abs(latitude) <= 90 && std::abs(longitude) <= 180 &&
         !(latitude == 0 && longitude == 0);
}

Point Point::of(double latitude, double longitude) {
  if (!is_place(latitude, longitude)) return {};
  double radians = latitude / degrees_per_radian;
  return {std::sin(radians), std::cos(radians), longitude / degrees_per_radian, true};
}

double distance(const Point& a, const Point& b) {
  double cosine = a.sin_latitude * b.sin_latitude +
                  a.cos_latitude * b.cos_latitude * std::cos(a.longitude - b.longitude);
  return std::acos(std::clamp(cosine, -1.0, 1.0)) * per_pi;
}

double distance(double lat1, double lon1, double lat2, double lon2) {
  return distance(Point::of(lat1, lon1), Point::of(lat2, lon2));
}

std::uint64_t adjusted(std::uint64_t score, std::int64_t adjustment) {
  if (adjustment >= 0) return saturating_sum(score, static_cast<std::uint64_t>(adjustment));
  auto loss = -static_cast<std::uint64_t>(adjustment);
  return loss < score ? score - loss : 0;
}

std::uint64_t score_remote(const Weights& weights, const RemoteEdge& edge, double latitude,
                           double longitude, Policy policy) {
  if (whole(edge.ram_max) == 0 || whole(edge.bw_available) == 0) return 0;
  std::uint64_t score = remote_bandwidth(weights, edge, policy);
  if (policy == Policy::fair) {
    score += cpu_score(weights.cpu, edge.cpu_percent);
    score += ram_score(weights.ram, edge.ram_used, edge.ram_max);
  } else {
    score += left(weights.cpu, edge.cpu_percent / 100);
    score += left(weights.ram, edge.ram_used / edge.ram_max);
  }
  auto viewer = Point::of(latitude, longitude), place = Point::of(edge.latitude, edge.longitude);
  if (viewer.is_known && place.is_known)
    score += geo_score(weights.geo, distance(viewer, place));
  else if (policy == Policy::fair)
    score += weights.geo / 2;
  return score > cross_cluster_penalty ? score - cross_cluster_penalty : 0;
}

}  // namespace warren::balance
