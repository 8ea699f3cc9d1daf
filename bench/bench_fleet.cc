// `make bench PART=fleet`: the fleet compared with the bare operation, on the same servers in the
// same run. By hand:
//   bench_fleet [claims|redis|postgres|etcd|serving|hand_over|first_answer]    a part; all by default
//   bench_fleet --peer-url URL serving      also measures a server that speaks zoekt's JSON API and
//                                           has indexed the repositories of `scripts/corpus-repos
//                                           linux 500`, and no others
// $WARREN_BENCH_CORPUS: another package than linux, such as postgresql-15 for a short run.
#define DOCTEST_CONFIG_IMPLEMENT
#include "bench_fleet.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

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
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string peer_url;
  if (words.size() >= 2 && words[0] == "--peer-url") {
    peer_url = words[1];
    words.erase(words.begin(), words.begin() + 2);
  }
  const char* chosen = std::getenv("WARREN_BENCH_CORPUS");
  std::string part = words.empty() ? "" : words[0], package = chosen ? chosen : "linux";
  auto is_wanted = [&](std::string_view name) { return part.empty() || part == name; };
  bool is_engine = part == "redis" || part == "postgres" || part == "etcd";
  if (is_engine || is_wanted("claims")) bench::bench_claims(is_engine ? part : "");
  if (is_wanted("serving")) bench::bench_serving(package, peer_url);
  if (is_wanted("hand_over")) bench::bench_hand_over(package);
  if (is_wanted("first_answer")) bench::bench_first_answer(package);
}
