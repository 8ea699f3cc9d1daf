#define DOCTEST_CONFIG_IMPLEMENT
#include "bench_primitives.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/log.h"

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
  if (std::thread::hardware_concurrency() >= 2) {
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(1, &core);
    sched_setaffinity(0, sizeof(core), &core);
  }
  bench::bench_leases();
}
