#include "proof/torture/schedules/lease_sim.h"

#include <doctest/doctest.h>

#include <set>

#include "base/clock.h"
#include "proof/torture/schedules/daily_seed.h"

using namespace warren;
using namespace warren::torture;

namespace {

// Sanitizers check each step, and the steps are the same in every schedule.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t schedules_to_run = 1'000;
#else
constexpr std::uint64_t schedules_to_run = 20'000;
#endif
// The share of schedules; a fault that is too rare finds nothing.
constexpr double least_of_a_kind = 0.05;
// The share of the time in which locks are held, for I3.
constexpr double most_excused = 0.2;

SimulationResult simulate(std::uint64_t first_seed, std::uint64_t schedules) {
  Target target{"lease", {}, nullptr, [](std::uint64_t seed) { return simulate_leases(seed); }};
  SimulationOptions options{.first_seed = first_seed, .schedules = schedules};
  auto result = simulate_many(target, options, [](double, auto) {});
  CHECK(result.schedules == schedules);
  CHECK_MESSAGE(!result.violation, "seed ", result.seed, "\n", result.violation->text());
  return result;
}

// One of these schedules breaks the invariant that the mistake is about; others may break more.
void check_finds(LeaseMistake mistake, const std::string& invariant, std::uint64_t schedules) {
  std::set<std::string> others;
  for (std::uint64_t seed = 1; seed <= schedules; ++seed) {
    auto violation = simulate_leases(seed, mistake).violation;
    if (!violation) continue;
    if (violation->invariant == invariant) {
      MESSAGE("mistake ", static_cast<int>(mistake), ": seed ", seed, ", ", invariant);
      return;
    }
    if (others.insert(violation->invariant).second)
      MESSAGE("mistake ", static_cast<int>(mistake), ": seed ", seed, ", ", violation->invariant);
  }
  FAIL_CHECK("mistake ", static_cast<int>(mistake), " does not break ", invariant, " in ",
             schedules, " schedules");
}

}  // namespace

TEST_CASE("thousands of schedules of leases, with faults of all kinds, break no invariant") {
  auto result = simulate(1, schedules_to_run);
  for (const char* kind : lease_faults()) {
    auto part = double(result.faults[kind]) / double(result.schedules);
    MESSAGE(std::string(kind), ": in ", 100 * part, " % of schedules");
    CHECK(part >= least_of_a_kind);
  }
}

TEST_CASE("schedules that broke an invariant once break none any more") {
  // A server's clock steps forward, then the server hands a lease over to a process that sleeps: it
  // wakes after the end of that grant, and takes it for 200 ms younger than it is.
  simulate(7013949, 1);
  CHECK(simulate_leases(7013949).misled == 1);
  // A lease expires while it is given back in steps, and is granted to the same process again
  // meanwhile.
  simulate(7011627, 1);
  // An answer says which place in line its process had, after a message that granted the lease.
  simulate(70012425, 1);
  // A waiter is granted the lease under a session that is replaced before it hears of that.
  simulate(383533194, 1);
  // A restored server hands the lease to a process in its line that had left.
  simulate(383563199, 1);
  // A server is wiped that has the fence of a log which has already moved away.
  simulate(336070761, 1);
  // A fence expires and takes its log along, and a failover loses a part of that.
  simulate(80182922, 1);
}

TEST_CASE("excuses are as narrow as the faults: most of waiting and of holding is judged") {
  history::LeaseJudge::Share all;
  history::LeaseJudge::HoldTime time;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    auto schedule = simulate_leases(seed);
    all.judged += schedule.waiters.judged;
    all.all += schedule.waiters.all;
    time.excused += schedule.hold_time.excused;
    time.all += schedule.hold_time.all;
  }
  MESSAGE("judged: ", 100 * double(all.judged) / double(all.all), " % of ", all.all);
  CHECK(2 * all.judged > all.all);
  auto excused = std::chrono::duration<double>(time.excused) / time.all;
  MESSAGE("two owners would be excused for ", 100 * excused, " % of the time that locks are held");
  CHECK(excused < most_excused);
}

TEST_CASE("schedules that are new every day break no invariant") {
  auto first = daily_seed();
  MESSAGE("WARREN_SEED=", first, " runs these again");
  simulate(first, std::min(schedules_to_run, daily_seeds));
}

TEST_CASE("the same seed gives the same schedule") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto one = simulate_leases(seed), other = simulate_leases(seed);
    CHECK(one.events == other.events);
    CHECK(one.faults == other.faults);
  }
}

TEST_CASE("every mistake of the machine that is planted is found") {
  check_finds(LeaseMistake::deadline_from_reply, "I3", 5'000);
  check_finds(LeaseMistake::blind_release, "I12", 100);
  check_finds(LeaseMistake::ignores_gap, "I7", 2'000);
  check_finds(LeaseMistake::believes_longer, "I3", 500);
  check_finds(LeaseMistake::late_timer, "I6", 100);
  check_finds(LeaseMistake::reuses_generation, "I3", 500);
  check_finds(LeaseMistake::unshown_claim, "I3", 1'000);
}

TEST_CASE("every mistake of the scripts that is planted is found") {
  check_finds(LeaseMistake::unchecked_release, "I3", 500);
  check_finds(LeaseMistake::unchecked_renewal, "I2", 1'000);
  check_finds(LeaseMistake::leaves_queue_entry, "I12", 500);
  check_finds(LeaseMistake::counter_regresses, "I1", 500);
  check_finds(LeaseMistake::counter_only_fence, "I1", 3'000);
  check_finds(LeaseMistake::short_retention, "I3", 500);
}

TEST_CASE("every mistake of a resource that is planted is found") {
  check_finds(LeaseMistake::token_not_checked, "I1", 500);
  check_finds(LeaseMistake::counter_only_resource, "I1", 1'000);
}
