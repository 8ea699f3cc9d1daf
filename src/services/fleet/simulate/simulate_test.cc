#include "services/fleet/simulate/simulate.h"

#include <doctest/doctest.h>

namespace warren::fleet_sim {
namespace {

Terms small(std::uint64_t seed = 1) {
  Terms terms;
  terms.repos = 60;
  terms.nodes = 4;
  terms.seed = seed;
  terms.length = 20min;
  terms.world.largest_bytes = 20e6;
  return terms;
}

}  // namespace

TEST_CASE("a seed is a whole run, and another seed is another one") {
  auto run = [](std::uint64_t seed) {
    auto terms = small(seed);
    terms.faults = *parse_faults("all");
    auto outcome = simulate(terms);
    terms.seed = 0;
    std::string all = report(terms, outcome) + to_json(terms, outcome);
    for (const auto& plot : plots(terms, outcome)) all += plot.svg;
    return all;
  };
  CHECK(run(7) == run(7));
  CHECK(run(7) != run(8));
}

TEST_CASE("whatever fails, a row has one owner, epochs grow, and pinned ones stay") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    auto terms = small(seed);
    terms.faults = *parse_faults("all");
    terms.replicas = seed % 2 == 0 ? 2 : 1;
    terms.budget_part = seed % 3 == 0 ? 0.3 : 1.4;
    auto outcome = simulate(terms);
    CAPTURE(seed);
    for (const auto& violation : outcome.violations) CHECK(violation == "");
    CHECK(outcome.pinned_missed == 0);
  }
}

TEST_CASE("what is pinned while memory is full is served soon, though nobody asks for it") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    auto terms = small(seed);
    terms.repos = 300;
    terms.budget_part = 0.3;
    terms.length = 45min;
    terms.records_demand = false;
    terms.pins_later = 3;
    auto outcome = simulate(terms);
    CAPTURE(seed);
    CHECK(outcome.pinned_later == 3);
    CHECK(outcome.pinned_later_served == outcome.pinned_later);
    for (const auto& violation : outcome.violations) CHECK(violation == "");
  }
}

TEST_CASE("a load that steps up and down is followed without flaps, by one node too many at most") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    auto terms = small(seed);
    terms.nodes = 2;
    terms.budget_part = 2;
    terms.length = 6h;
    terms.scaling.is_on = true;
    terms.scaling.noise = 0.1;
    terms.world.queries_per_second = 5;
    auto outcome = simulate(terms);
    CAPTURE(seed);
    CHECK(outcome.scaled.flaps == 0);
    CHECK(outcome.scaled.overshoot <= 1);
    CHECK(outcome.scaled.most >= 5);
    CHECK(outcome.scaled.up_seconds > 180);
    CHECK(outcome.scaled.up_seconds < 900);
    CHECK(outcome.scaled.down_seconds > 0);
    for (const auto& violation : outcome.violations) CHECK(violation == "");
  }
}

TEST_CASE("clocks that run wronger than a lease allows for are found to answer twice") {
  bool is_found = false;
  for (std::uint64_t seed = 1; seed <= 8 && !is_found; ++seed) {
    auto terms = small(seed);
    terms.world.drift = 0.5;
    terms.faults = *parse_faults("cut");
    for (const auto& violation : simulate(terms).violations)
      is_found = is_found || violation.contains("both answer");
  }
  CHECK(is_found);
}

TEST_CASE("what a node loses is served again within its ttl, five seconds and the work") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    auto terms = small(seed);
    terms.faults = *parse_faults("kill,pause,cut");
    terms.budget_part = 2;
    auto outcome = simulate(terms);
    CAPTURE(seed);
    CHECK(outcome.all_ready > 0);
    REQUIRE(outcome.recoveries.size() == 3);
    for (const auto& one : outcome.recoveries) {
      CAPTURE(one.what);
      CHECK(one.seconds >= 0);
      CHECK(one.seconds <= one.bound);
      CHECK(one.clones <= one.lost);
    }
  }
}

TEST_CASE("an idle node changes one row with each heartbeat") {
  auto terms = small();
  terms.budget_part = 2;
  auto outcome = simulate(terms);
  REQUIRE(outcome.was_idle);
  CHECK(outcome.idle_writes <= 1.02);
}

TEST_CASE("words for faults are understood, and others refused") {
  CHECK(words_of(*parse_faults("drain,kill")) == "kill,drain");
  CHECK(words_of(*parse_faults("all")) == "kill,pause,cut,restart,stall,slow,drain");
  CHECK(words_of(*parse_faults("none")) == "none");
  CHECK_FALSE(parse_faults("kill,rain"));
}

}  // namespace warren::fleet_sim
