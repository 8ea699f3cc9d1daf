// A share of the real faults for every run of the tests; `warren torture` has more of them.
#include <doctest/doctest.h>

#include "proof/torture/lease_torture.h"
#include "proof/torture/mirror_torture.h"

using namespace warren;
using namespace warren::torture;

namespace {

RoundOptions round_options(std::uint64_t seed) {
  return {.seed = seed,
          .binary = WARREN_BINARY,
          .clock_shim = std::filesystem::path(WARREN_BINARY).parent_path() / "warren-clock.so"};
}

}  // namespace

TEST_CASE("leases keep their promises on real servers that fail") {
  for (std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    auto report = torture_lease(round_options(seed));
    REQUIRE_MESSAGE(!report.violation, report.violation->text());
    CHECK(report.counts["grants"] > 0);
    CHECK(report.counts["writes in the log"] > 0);
    CHECK(!report.faults.empty());
  }
}

TEST_CASE("mirrors keep their promises on real servers that fail") {
  for (std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    auto report = torture_mirror(round_options(seed));
    REQUIRE_MESSAGE(!report.violation, report.violation->text());
    CHECK(report.counts["writes acknowledged"] > 0);
    CHECK(report.counts["reads of own writes"] > 0);
    CHECK(report.counts["contents compared"] == 4);
    CHECK(!report.faults.empty());
  }
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
