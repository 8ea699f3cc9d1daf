#include "proof/torture/lease_sim.h"

#include <doctest/doctest.h>

#include "base/clock.h"

using namespace warren;
using namespace warren::torture;

namespace {

// Sanitizers look at each step, and it is the same step in every schedule.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t schedules_to_run = 1'000;
#else
constexpr std::uint64_t schedules_to_run = 20'000;
#endif

// The invariant that the first failing schedule of these breaks.
std::string found_with(LeaseMistake mistake, std::uint64_t schedules) {
  for (std::uint64_t seed = 1; seed <= schedules; ++seed)
    if (auto schedule = simulate_leases(seed, mistake); schedule.violation)
      return schedule.violation->invariant;
  return "";
}

}  // namespace

TEST_CASE("thousands of schedules of leases, with faults of all kinds, break no invariant") {
  Target target{"lease", {}, nullptr, [](std::uint64_t seed) { return simulate_leases(seed); }};
  SimulationOptions options{.first_seed = 1, .schedules = schedules_to_run};
  auto result = simulate_many(target, options, [](double, auto) {});
  CHECK(result.schedules == schedules_to_run);
  CHECK_MESSAGE(!result.violation, "seed ", result.seed, "\n", result.violation->text());
}

TEST_CASE("the same seed gives the same schedule") {
  for (std::uint64_t seed : {1, 2, 3, 4, 5})
    CHECK(simulate_leases(seed).events == simulate_leases(seed).events);
}

TEST_CASE("every mistake that is planted is found") {
  CHECK(found_with(LeaseMistake::deadline_from_reply, 5'000) == "I3");
  CHECK(found_with(LeaseMistake::blind_release, 500) != "");
  CHECK(found_with(LeaseMistake::counter_regresses, 2'000) != "");
  CHECK(found_with(LeaseMistake::token_not_checked, 500) == "I1");
  CHECK(found_with(LeaseMistake::ignores_gap, 2'000) == "I6");
}
