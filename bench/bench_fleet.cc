// The fleet beside the bare thing that it does, on the same servers in the same run.
#define DOCTEST_CONFIG_IMPLEMENT
#include "bench_fleet.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "measure.h"

using namespace warren;

// NOLINTNEXTLINE(bugprone-exception-escape): a benchmark whose server dies may end in any way.
int main(int argc, char** argv) {
  doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  log::Options quiet;
  quiet.levels = "error";
  if (!log::configure(quiet)) return 1;
  double load = 0;
  getloadavg(&load, 1);
  fmt::print(stderr, "load average {:.2f}; below 0.3 the figures are worth keeping\n", load);
  std::string_view engine = argc > 1 ? argv[1] : "";  // all
  bench::bench_claims(engine);
}
