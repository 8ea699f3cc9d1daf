// Runs thousands of schedules, and checks that they find what is wrong.
#include "proof/torture/schedules/mirror_sim.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "base/clock.h"
#include "proof/torture/schedules/daily_seed.h"

using namespace warren;
using namespace warren::mirror;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t schedules = 1'000, schedules_of_today = 100;  // it takes ten times as long
#else
constexpr std::uint64_t schedules = 10'000, schedules_of_today = torture::daily_seeds;
#endif

struct Coverage {
  std::map<std::string, std::uint64_t> faults;  // in how many of the schedules each kind occurred
  std::map<SimulatedSchedule::Search, std::uint64_t> searches;
};

Coverage run(std::uint64_t first, std::uint64_t count) {
  Coverage coverage;
  int failures = 0;
  for (auto seed = first; seed < first + count && failures < 30; ++seed) {
    auto schedule = simulate(seed);
    for (const auto* fault : schedule.faults) ++coverage.faults[fault];
    ++coverage.searches[schedule.search];
    if (!schedule.violation) continue;
    FAIL_CHECK("WARREN_SIM_SEED=" << seed << " shows: " << schedule.violation->text());
    ++failures;
  }
  return coverage;
}

void check_finds(const char* what, const Mistakes& mistakes, const std::string& invariant,
                 std::uint64_t most = 500) {
  for (std::uint64_t seed = 1; seed <= most; ++seed) {
    auto violation = simulate(seed, mistakes).violation;
    if (!violation) continue;
    MESSAGE(std::string(what) << ": seed " << seed << " shows " << violation->text());
    CHECK(violation->invariant == invariant);
    return;
  }
  FAIL_CHECK(std::string(what) << " is not found by " << most << " schedules");
}

}  // namespace

TEST_CASE("in thousands of schedules every mirror comes right, and none says what is not so") {
  if (const char* only = std::getenv("WARREN_SIM_SEED")) {  // as a failure prints it
    run(std::strtoull(only, nullptr, 10), 1);
    return;
  }
  auto coverage = run(1, schedules);
  for (std::string fault : mirror_faults()) {
    auto count = coverage.faults[fault];
    MESSAGE(fault << ": " << 100.0 * double(count) / schedules << " %");
    CHECK_MESSAGE(count * 20 >= schedules, fault << " is in too few schedules");
  }
  using Search = SimulatedSchedule::Search;
  auto decided = coverage.searches[Search::decided],
       undecided = coverage.searches[Search::undecided];
  MESSAGE("an order of writes and reads was found " << decided << " times, and not in time "
                                                    << undecided << " times");
  CHECK(decided * 20 >= schedules);
  CHECK(undecided * 30 <= decided);
}

TEST_CASE("schedules in which a mirror once went wrong show nothing any more") {
  // A write was answered late, on a connection that had been left, and was never confirmed.
  for (std::uint64_t seed : {440245, 3007092, 20301483}) run(seed, 1);
  // A server was wiped, another took over, and an older peer wrote: a mirror showed what no log had.
  run(1002617, 1);
  // A load in small pages over a slow link took longer than the calm.
  run(50664215, 1);
}

TEST_CASE("schedules of today, which nobody has run before, show nothing else") {
  auto first = torture::daily_seed();
  MESSAGE("WARREN_SEED=" << first << " runs them again");
  run(first, schedules_of_today);
}

TEST_CASE("a schedule is the same each time") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto once = simulate(seed), again = simulate(seed);
    CHECK(once.events == again.events);
    CHECK(once.faults == again.faults);
  }
}

TEST_CASE("every mistake that is planted is found") {
  check_finds("a mirror that does not care whether it was disconnected",
              {.machine = {.ignores_gaps = true}}, "I10");
  check_finds("a mirror that tolerates one missing entry", {.machine = {.tolerates_one_gap = true}},
              "I10");
  check_finds("a mirror that does not look at the tail", {.machine = {.never_checks_tail = true}},
              "I10");
  check_finds("a mirror that tolerates a gap before its own entry",
              {.machine = {.tolerates_own_gap = true}}, "I10");
  check_finds("an older value that replaces a newer one", {.machine = {.takes_older = true}},
              "I10");
  check_finds("deletions that are skipped during a load", {.machine = {.skips_deletes = true}},
              "I10");
  check_finds("a batch that overtakes the one that failed", {.machine = {.reorders_retries = true}},
              "I5");
  check_finds("an age that is counted from the answer", {.machine = {.understates_age = true}},
              "I10");
  check_finds("a load from the server that a slot leaves, and not from the one that gets it",
              {.machine = {.ignores_target = true}}, "I10");
  check_finds("a load under which a slot moves, between two pages of keys",
              {.machine = {.ignores_moves = true}}, "I10", 3'000);
  check_finds("pushes that are dropped", {.drops_pushes = true}, "I10");
  check_finds("a rewrite of history that is not told", {.hides_rewrites = true}, "I11");
  check_finds("a batch that runs again after newer ones",
              {.in_script = "if past[2] then", .instead = "if false then"}, "I5");
}
