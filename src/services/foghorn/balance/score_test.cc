#include "services/foghorn/balance/score.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "services/foghorn/balance/test_tables.h"

using namespace warren::balance;

namespace {

RemoteEdge in_london(double bw_available) {
  return {.cpu_percent = 20,
          .ram_used = 8 * gib,
          .ram_max = 32 * gib,
          .bw_available = bw_available,
          .latitude = london_lat,
          .longitude = london_lon};
}

std::uint64_t remote_score(const RemoteEdge& edge, Policy policy = Policy::compat,
                           Weights weights = {}) {
  return score_remote(weights, edge, london_lat, london_lon, policy);
}

}  // namespace

TEST_CASE("the processor counts in tenths of a percent, cut, and not at all above 100 percent") {
  CHECK(cpu_score(500, 37.5) == 313);
  CHECK(cpu_score(500, 12.0) == 440);
  CHECK(cpu_score(500, 5.5) == 473);
  CHECK(cpu_score(500, 0) == 500);
  CHECK(cpu_score(500, 100) == 0);
  CHECK(cpu_score(500, 100.01) == 0);
  CHECK(cpu_score(500, -3) == 500);
  CHECK(cpu_score(500, std::nan("")) == 0);
}

TEST_CASE("memory counts by its free part; more used than there is scores 0 and does not wrap") {
  CHECK(ram_score(500, 12 * gib, 32 * gib) == 313);
  CHECK(ram_score(500, 4 * gib, 32 * gib) == 438);
  CHECK(ram_score(500, 33 * gib, 32 * gib) == 0);
  CHECK(ram_score(500, 1, 0) == 0);
  CHECK(ram_score(500, 0x1p63, 0x1p64) == 250);  // the product needs more than 64 bits
}

TEST_CASE("a number is cut to what fits") {
  CHECK(whole(1.999) == 1);
  CHECK(whole(-1) == 0);
  CHECK(whole(std::nan("")) == 0);
  CHECK(whole(1e30) == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("distance is 0 at the same place, 1 at the antipode, and scores linearly") {
  CHECK(geo_score(1000, distance(1, 1, 1, 1)) == 1000);
  CHECK(distance(1, 1, 1, 180) == doctest::Approx(0.9875775).epsilon(1e-7));
  CHECK(geo_score(1000, distance(1, 1, 1, 180)) == 13);
  CHECK(distance(london_lat, london_lon, 52.3676, 4.9041) ==
        doctest::Approx(0.0178809).epsilon(1e-5));
  CHECK(distance(90, 10, -90, 10) == doctest::Approx(1));
}

TEST_CASE("a place is finite, on the globe, and not where both degrees are zero") {
  CHECK(is_place(90, -180));
  CHECK(is_place(0, 4));
  CHECK_FALSE(is_place(0, 0));
  CHECK_FALSE(is_place(90.1, 0));
  CHECK_FALSE(is_place(10, 180.1));
  CHECK_FALSE(is_place(std::nan(""), 4));
  CHECK_FALSE(is_place(4, HUGE_VAL));
}

TEST_CASE("tags add to a score, and take it whole when they are not smaller") {
  CHECK(adjusted(10, 5) == 15);
  CHECK(adjusted(10, -9) == 1);
  CHECK(adjusted(10, -10) == 0);
  CHECK(adjusted(10, -100) == 0);
  CHECK(adjusted(10, std::numeric_limits<std::int64_t>::min()) == 0);
  CHECK(adjusted(~0ull, 1) == ~0ull);
  CHECK(saturating_sum(std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}) ==
        std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("a remote edge is measured against 10 Gbit/s and pays 200 for the way") {
  CHECK(remote_score(in_london(100e6)) == 1655);
  CHECK(remote_score(in_london(1e9)) == 2375);
  auto unmeasured = in_london(1e9);
  unmeasured.ram_max = 0;
  CHECK(remote_score(unmeasured) == 0);
  CHECK(remote_score(in_london(0)) == 0);
}

TEST_CASE("a remote edge out of range is clamped") {
  RemoteEdge edge{.cpu_percent = 150,
                  .ram_used = 200,
                  .ram_max = 100,
                  .bw_available = 2.5e9,
                  .latitude = london_lat,
                  .longitude = london_lon};
  CHECK(remote_score(edge, Policy::compat, {100, 100, 300, 100, 50}) == 200);
}

TEST_CASE("a remote edge that scores no more than the penalty is not worth the way") {
  Weights weights{100, 100, 100, 100, 50};
  RemoteEdge idle{.ram_max = 100, .bw_available = 1.25e9};
  idle.latitude = london_lat;
  idle.longitude = london_lon;
  CHECK(remote_score(idle, Policy::compat, weights) == 200);
  auto loaded = idle;
  loaded.cpu_percent = 100;
  loaded.ram_used = 100;
  CHECK(remote_score(loaded, Policy::compat, weights) == 0);
}

TEST_CASE("fair measures a remote edge on its own limit, as a local one") {
  auto idle = in_london(125e6);  // 1 Gbit/s, all of it free
  idle.bw_limit = 125e6;
  CHECK(remote_score(idle, Policy::compat) == 400 + 375 + 100 + 1000 - 200);
  CHECK(remote_score(idle, Policy::fair) == 400 + 375 + 1000 + 1000 - 200);
  idle.bw_limit = 0;  // an old peer that does not say
  CHECK(remote_score(idle, Policy::fair) == 400 + 375 + 100 + 1000 - 200);
}

TEST_CASE("fair takes an unknown place as half way, compat as the other end of the world") {
  auto edge = in_london(1e9);
  edge.latitude = unknown_place;
  CHECK(remote_score(edge, Policy::compat) == 400 + 375 + 800 - 200);
  CHECK(remote_score(edge, Policy::fair) == 400 + 375 + 800 + 500 - 200);
}
