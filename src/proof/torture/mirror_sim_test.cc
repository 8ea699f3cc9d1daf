// Thousands of schedules, and that they find what is wrong.
#include "proof/torture/mirror_sim.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace warren;
using namespace warren::mirror;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t schedules = 2'000;  // it takes ten times as long
#else
constexpr std::uint64_t schedules = 20'000;
#endif

// The first seed at which the flaw shows.
std::optional<std::uint64_t> found(Flaws flaws, std::uint64_t most) {
  for (std::uint64_t seed = 1; seed <= most; ++seed)
    if (simulate(seed, flaws).violation) return seed;
  return {};
}

}  // namespace

TEST_CASE("in thousands of schedules every mirror comes right, and none says what is not so") {
  const char* only = std::getenv("WARREN_SIM_SEED");  // as a failure shows it
  std::uint64_t first = only ? std::strtoull(only, nullptr, 10) : 1;
  std::uint64_t count = only ? 1 : schedules;
  for (auto seed = first; seed < first + count; ++seed) {
    auto schedule = simulate(seed);
    if (schedule.violation) {
      FAIL_CHECK("WARREN_SIM_SEED=" << seed << " shows: " << schedule.violation->text());
      break;
    }
  }
}

TEST_CASE("a schedule is the same each time") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    CHECK(simulate(seed).events == simulate(seed).events);
}

TEST_CASE("the simulation finds a mirror that does not care whether it was disconnected") {
  CHECK(found({.ignores_gaps = true}, 2000));
}

TEST_CASE("the simulation finds a mirror that tolerates one missing entry") {
  CHECK(found({.tolerates_one_gap = true}, 2000));
}

TEST_CASE("the simulation finds a mirror that does not look at the tail") {
  CHECK(found({.never_checks_tail = true}, 2000));
}
