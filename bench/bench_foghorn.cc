#include "bench_foghorn.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "measure.h"

using namespace warren;

// NOLINTNEXTLINE(bugprone-exception-escape): a benchmark whose server dies may end in any way.
int main(int argc, char** argv) {
  log::Options quiet;
  quiet.levels = "error";
  if (!log::configure(quiet)) return 1;
  bench::pin(0, 1);
  double load = 0;
  getloadavg(&load, 1);
  fmt::print(stderr, "load average {:.2f}; below 0.3 the figures are worth keeping\n", load);
  std::string_view part = argc > 1 ? argv[1] : "";  // all
  if (part.empty() || part == "balance") bench::bench_balance();
  if (part.empty() || part == "load") bench::bench_load();
  if (part.empty() || part == "play") bench::bench_play();
}
