#include "proof/torture/schedules/catalog_sim.h"

#include <doctest/doctest.h>

#include <set>

#include "proof/torture/schedules/daily_seed.h"

using namespace warren;
using namespace warren::torture;

namespace {

// Sanitizers check each step, and the steps are the same in every schedule.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t schedules_to_run = 500;
#else
constexpr std::uint64_t schedules_to_run = 10'000;
#endif
// The share of schedules; a fault that is too rare finds nothing.
constexpr double least_of_a_kind = 0.03;
// The share of the time in which rows are believed in, for I13.
constexpr double most_excused = 0.35;

SimulationResult simulate(std::uint64_t first_seed, std::uint64_t schedules) {
  Target target{"catalog", {}, nullptr, [](std::uint64_t seed) { return simulate_catalog(seed); }};
  SimulationOptions options{.first_seed = first_seed, .schedules = schedules};
  auto result = simulate_many(target, options, [](double, auto) {});
  CHECK(result.schedules == schedules);
  CHECK_MESSAGE(!result.violation, "seed ", result.seed, "\n", result.violation->text());
  return result;
}

// One of these schedules breaks the invariant that the mistake is about; others may break more.
void check_finds(CatalogMistake mistake, const std::string& invariant, std::uint64_t schedules) {
  std::set<std::string> others;
  for (std::uint64_t seed = 1; seed <= schedules; ++seed) {
    auto violation = simulate_catalog(seed, mistake).violation;
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

TEST_CASE("thousands of schedules of a catalog, with faults of all kinds, break no invariant") {
  auto result = simulate(1, schedules_to_run);
  for (const char* kind : catalog_faults()) {
    auto part = double(result.faults[kind]) / double(result.schedules);
    MESSAGE(std::string(kind), ": in ", 100 * part, " % of schedules");
    CHECK(part >= least_of_a_kind);
  }
}

TEST_CASE("excuses of a catalog are as narrow as the faults: most of owning is judged") {
  history::CatalogJudge::HoldTime time;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    auto schedule = simulate_catalog(seed);
    time.excused += schedule.hold_time.excused;
    time.all += schedule.hold_time.all;
  }
  auto excused = std::chrono::duration<double>(time.excused) / time.all;
  MESSAGE("two owners would be excused for ", 100 * excused, " % of the time that rows are owned");
  CHECK(excused < most_excused);
}

TEST_CASE("schedules of a catalog that are new every day break no invariant") {
  auto first = daily_seed();
  MESSAGE("WARREN_SEED=", first, " runs these again");
  simulate(first, std::min(schedules_to_run, daily_seeds));
}

TEST_CASE("the same seed gives the same schedule of a catalog") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto one = simulate_catalog(seed), other = simulate_catalog(seed);
    CHECK(one.events == other.events);
    CHECK(one.faults == other.faults);
  }
}

TEST_CASE("every mistake of the catalog's scripts that is planted is found") {
  check_finds(CatalogMistake::claim_ignores_lease, "I13", 500);
  check_finds(CatalogMistake::epoch_not_raised, "I14", 500);
  check_finds(CatalogMistake::counter_regresses, "I14", 2'000);
  check_finds(CatalogMistake::unchecked_release, "I13", 2'000);
  check_finds(CatalogMistake::unchecked_epoch, "I15", 500);
  check_finds(CatalogMistake::change_skipped, "I17", 500);
  check_finds(CatalogMistake::removal_not_told, "I17", 500);
  check_finds(CatalogMistake::trimming_not_told, "I17", 500);
  check_finds(CatalogMistake::failover_not_told, "I17", 2'000);
  check_finds(CatalogMistake::offers_what_is_owned, "I18", 500);
  check_finds(CatalogMistake::place_forgotten, "I18", 500);
  check_finds(CatalogMistake::keeps_rows_of_the_dead, "I18", 500);
  check_finds(CatalogMistake::wait_never_ends, "I18", 500);
}

TEST_CASE("every mistake of a catalog's node that is planted is found") {
  check_finds(CatalogMistake::believes_longer, "I13", 1'000);
  check_finds(CatalogMistake::serves_past_lease, "I16", 500);
  check_finds(CatalogMistake::ignores_gap, "I17", 2'000);
  check_finds(CatalogMistake::keeps_strays, "I18", 2'000);
}
