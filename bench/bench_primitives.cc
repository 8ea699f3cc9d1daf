#define DOCTEST_CONFIG_IMPLEMENT
#include "bench_primitives.h"

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
  if (argc == 3 && std::string_view(argv[1]) == "hold")
    return bench::hold_until_killed(static_cast<unsigned short>(std::atoi(argv[2])));
  bench::pin(0, 1);
  double load = 0;
  getloadavg(&load, 1);
  fmt::print(stderr, "load average {:.2f}; below 0.3 the figures are worth keeping\n", load);
  std::string_view part = argc > 1 ? argv[1] : "";  // all
  if (part.empty() || part == "lease") bench::bench_leases();
  if (part.empty() || part == "mirror") bench::bench_mirrors();
  if (part.empty() || part == "once") bench::bench_once();
}
