// `make bench PART=search`; by hand: bench_search --help.
#include <fmt/format.h>

#include <cstdlib>
#include <span>

#include "base/log.h"
#include "search_measure.h"
#include "search_words.h"

using namespace warren;
using namespace warren::bench;

namespace {

int complain(const Error& error) {
  fmt::print(stderr, "search: {}\n", error.what);
  return 1;
}

int bench_corpus(const std::string& package) {
  auto corpus = fetch_corpus(package);
  if (!corpus) return complain(corpus.error());
  bench_build(*corpus);  // before the corpus fills the memory
  auto stage = set_up(package, true);
  if (!stage) return complain(stage.error());
  bench_memory(*stage);
  bench_scan(*stage);
  bench_classes(*stage);
  bench_clients(*stage);
  return 0;
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): a benchmark that has no memory may end in any way.
int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0].starts_with("--build"))
    return build_child(words[1], words[2], words[0] == "--build");
  const char* chosen = std::getenv("WARREN_BENCH_CORPUS");
  auto read = read_search_words(words, chosen ? chosen : "");
  if (!read) {
    complain(read.error());
    return 2;
  }
  if (read->wants_help) {
    fmt::print("{}", search_usage);
    return 0;
  }
  log::Options quiet;
  quiet.levels = "error";
  if (!log::configure(quiet)) return 1;
  double load = 0;
  getloadavg(&load, 1);
  fmt::print(stderr, "load average {:.2f}; below 0.3 the figures are worth keeping\n", load);
  const auto& url = read->peer_url;
  int code = 0;
  for (const auto& package : read->corpora) {
    if (url.empty()) {
      code |= bench_corpus(package);
      continue;
    }
    auto stage = set_up(package, false);
    if (!stage) return complain(stage.error());
    auto done = bench_peer(*stage, url);
    if (!done) return complain(done.error());
  }
  print_summary();
  return code;
}
