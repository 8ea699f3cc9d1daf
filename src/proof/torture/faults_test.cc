// A few rounds of real faults in every run of the tests; `warren torture` runs more of them.
#include <doctest/doctest.h>

#include "proof/torture/catalog_torture.h"
#include "proof/torture/lease_torture.h"
#include "proof/torture/mirror_torture.h"
#include "proof/torture/once_torture.h"
#include "proof/torture/schedules/daily_seed.h"

using namespace warren;
using namespace warren::torture;

namespace {

RoundOptions round_options(std::uint64_t seed) {
  return {.seed = seed,
          .binary = WARREN_BINARY,
          .clock_shim = std::filesystem::path(WARREN_BINARY).parent_path() / "warren-clock.so"};
}

// The fixed seeds give a round of each topology, and today's gives a round that has never been run.
std::vector<std::uint64_t> seeds() {
  auto today = daily_seed();
  MESSAGE("WARREN_SEED=" << today << " runs today's round again");
  return {1, 2, 3, today};
}

// Over several rounds: if workers' clocks can lie, at least one round has a worker whose clock
// stepped.
class ClockSteps {
 public:
  void add(RoundReport& report) {
    can_step_ = can_step_ || report.has_lying_clocks;
    steps_ += report.faults["worker's clock stepped"];
  }
  void check() const {
    MESSAGE("clocks of workers stepped " << steps_ << " times");
    if (can_step_) CHECK(steps_ > 0);
  }

 private:
  bool can_step_ = false;
  std::size_t steps_ = 0;
};

}  // namespace

TEST_CASE("leases keep their promises on real servers that fail") {
  std::size_t refused = 0;
  ClockSteps steps;
  for (auto seed : seeds()) {
    CAPTURE(seed);
    auto report = torture_lease(round_options(seed));
    REQUIRE_MESSAGE(!report.violation, report.violation->text());
    CHECK(report.counts["grants"] > 0);
    CHECK(report.counts["writes in the log"] > 0);
    CHECK(!report.faults.empty());
    refused += report.counts["stale writes refused"];
    steps.add(report);
    MESSAGE("the machine was late by " << report.lateness / 1ms << " ms");
  }
  // Holders were stopped for longer than their leases lasted, and wrote.
  CHECK(refused > 0);
  MESSAGE(refused << " stale writes refused");
  steps.check();
}

TEST_CASE("mirrors keep their promises on real servers that fail") {
  ClockSteps steps;
  for (auto seed : seeds()) {
    CAPTURE(seed);
    auto report = torture_mirror(round_options(seed));
    REQUIRE_MESSAGE(!report.violation, report.violation->text());
    CHECK(report.counts["writes acknowledged"] > 0);
    CHECK(report.counts["reads of own writes"] > 0);
    CHECK(report.counts["contents compared"] == 4);
    if (seed / 3 % 2 == 0) CHECK(report.counts["entries replayed"] > 0);  // the log is whole
    CHECK(!report.faults.empty());
    steps.add(report);
  }
  steps.check();
}

TEST_CASE("a catalog keeps its promises on real servers that fail, whatever its engine") {
  std::size_t refused = 0;
  auto today = daily_seed();
  MESSAGE("WARREN_SEED=" << today << " runs today's round again");
  struct Case {
    CatalogEngine engine;
    std::uint64_t seed;
  };
  // Redis as a single server, with Sentinel, as a cluster, and whatever today's seed gives.
  for (auto [engine, seed] :
       {Case{CatalogEngine::redis, 3}, Case{CatalogEngine::redis, 1}, Case{CatalogEngine::redis, 2},
        Case{CatalogEngine::redis, today}, Case{CatalogEngine::postgres, today},
        Case{CatalogEngine::etcd, today}}) {
    CAPTURE(int(engine));
    CAPTURE(seed);
    auto report = torture_catalog(round_options(seed), engine);
    REQUIRE_MESSAGE(!report.violation, report.violation->text());
    CHECK(report.counts["rows claimed"] > 0);
    CHECK(report.counts["writes taken"] > 0);
    CHECK(report.counts["rows offered"] > 0);
    CHECK(report.counts["contents compared"] == worker_count);
    CHECK(!report.faults.empty());
    refused += report.counts["old epochs refused"];
  }
  CHECK(refused > 0);
  MESSAGE(refused << " writes under old epochs refused");
}

TEST_CASE("what is created once keeps its promises on real servers that fail") {
  auto today = daily_seed();
  MESSAGE("WARREN_SEED=" << today << " runs today's round again");
  for (auto seed : {std::uint64_t(3), today}) {
    CAPTURE(seed);
    auto report = torture_once(round_options(seed));
    REQUIRE_MESSAGE(!report.violation, report.violation->text());
    CHECK(report.counts["steps"] > 0);
    CHECK(report.counts["answers"] > 0);
    CHECK(!report.faults.empty());
  }
}

TEST_CASE("work that does not hear that its claim is over is caught") {
  bool is_caught = false;
  for (std::uint64_t seed = 0; seed < 30 && !is_caught; seed += 3) {
    auto options = round_options(seed);
    options.is_reckless = true;
    auto report = torture_once(options);
    is_caught = report.violation && report.violation->invariant == "I19";
  }
  CHECK(is_caught);
}

TEST_CASE("nodes that believe in their rows past their lease are caught") {
  bool is_caught = false;
  for (std::uint64_t seed = 0; seed < 30 && !is_caught; seed += 3) {
    auto options = round_options(seed);
    options.is_reckless = true;
    auto report = torture_catalog(options);
    is_caught = report.violation && report.violation->invariant == "I13";
  }
  CHECK(is_caught);
}

TEST_CASE("workers that write without showing their token are caught") {
  bool is_caught = false;
  for (std::uint64_t seed = 0; seed < 30 && !is_caught; seed += 3) {
    auto options = round_options(seed);
    options.is_reckless = true;
    auto report = torture_lease(options);
    is_caught = report.violation && report.violation->invariant == "I1";
  }
  CHECK(is_caught);
}
