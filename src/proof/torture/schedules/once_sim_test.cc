// Runs thousands of schedules, and checks that they find what is wrong.
#include "proof/torture/schedules/once_sim.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include "proof/torture/schedules/daily_seed.h"

using namespace warren;
using namespace warren::torture;

namespace {

// Sanitizers check each step, and the steps are the same in every schedule.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t schedules = 200, schedules_of_today = 50;
#else
constexpr std::uint64_t schedules = 2'000, schedules_of_today = 500;
#endif
// The share of schedules; a fault that is too rare finds nothing. Two hundred schedules need not have
// the rarest kind, which is in one of a hundred.
constexpr double least_of_a_kind = schedules < 1'000 ? 0 : 0.004;
// The share of the time in which a process works, for I19.
constexpr double most_excused = 0.35;

struct Sum {
  std::map<std::string, std::uint64_t> faults;  // in how many of the schedules each kind occurred
  history::OnceJudge::WorkTime work;
};

Sum run(std::uint64_t first, std::uint64_t count) {
  Sum sum;
  int failures = 0;
  for (auto seed = first; seed < first + count && failures < 5; ++seed) {
    auto schedule = simulate_once(seed);
    for (const auto* fault : schedule.faults) ++sum.faults[fault];
    sum.work.all += schedule.work_time.all;
    sum.work.excused += schedule.work_time.excused;
    if (!schedule.violation) continue;
    FAIL_CHECK("seed " << seed << " shows: " << schedule.violation->text());
    ++failures;
  }
  return sum;
}

void check_finds(OnceMistake mistake, const std::string& invariant, std::uint64_t most = 500) {
  std::set<std::string> others;
  for (std::uint64_t seed = 1; seed <= most; ++seed) {
    auto violation = simulate_once(seed, mistake).violation;
    if (!violation) continue;
    if (violation->invariant == invariant) {
      MESSAGE("mistake " << static_cast<int>(mistake) << ": seed " << seed << ", " << invariant);
      return;
    }
    if (others.insert(violation->invariant).second)
      MESSAGE("mistake " << static_cast<int>(mistake) << ": seed " << seed << ", "
                         << violation->invariant);
  }
  FAIL_CHECK("mistake " << static_cast<int>(mistake) << " does not break " << invariant << " in "
                        << most << " schedules");
}

}  // namespace

TEST_CASE("in thousands of schedules things are created once, and everybody attaches") {
  auto sum = run(1, schedules);
  for (const auto* kind : once_faults()) {
    auto part = double(sum.faults[kind]) / double(schedules);
    MESSAGE(std::string(kind) << ": in " << 100 * part << " % of schedules");
    CHECK(part >= least_of_a_kind);
  }
  auto excused = std::chrono::duration<double>(sum.work.excused) / sum.work.all;
  MESSAGE("two at work would be excused for " << 100 * excused << " % of the time of work");
  CHECK(excused < most_excused);
}

TEST_CASE("schedules of once that are new every day break no invariant") {
  auto first = daily_seed();
  MESSAGE("WARREN_SEED=" << first << " runs these again");
  run(first, schedules_of_today);
}

TEST_CASE("the same seed gives the same schedule of once") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto one = simulate_once(seed), other = simulate_once(seed);
    CHECK(one.events == other.events);
    CHECK(one.faults == other.faults);
  }
}

TEST_CASE("every mistake of the script of once that is planted is found") {
  check_finds(OnceMistake::takes_from_the_living, "I19");
  check_finds(OnceMistake::token_not_raised, "I19");
  check_finds(OnceMistake::unchecked_result, "I20");
  check_finds(OnceMistake::unchecked_renewal, "I19");
  check_finds(OnceMistake::refresh_brings_back, "I20");
  check_finds(OnceMistake::keeps_removed_record, "I20");
  check_finds(OnceMistake::result_not_recorded, "I20");
}

TEST_CASE("every mistake of the machine of once, or of its user, that is planted is found") {
  check_finds(OnceMistake::deadline_from_reply, "I19", 2'000);
  check_finds(OnceMistake::works_past_deadline, "I19");
  check_finds(OnceMistake::ignores_refusal, "I20");
  check_finds(OnceMistake::never_looks_again, "I21");
  check_finds(OnceMistake::as_if_granted, "I19");
}
