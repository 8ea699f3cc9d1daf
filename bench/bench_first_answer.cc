// The time from `warren fleet repo add` to the first answer, which comes from a scan, compared with
// a bare `git clone` of the same repository over the same protocol.
#include <filesystem>

#include "bench_fleet.h"
#include "fleet_processes.h"
#include "measure.h"
#include "proof/testkit/run.h"
#include "report.h"
#include "search_command.h"
#include "search_corpus.h"

namespace warren::bench {

namespace {

namespace fs = std::filesystem;

constexpr int rounds = 3;

double clone(const Corpus& corpus) {
  TempFolder folder;
  Command command{.argv = {"git", "clone", "-q", "--bare", "--depth", "1",
                           "file://" + corpus.repository, folder.path() / "clone"},
                  .longest = std::chrono::minutes(10)};
  auto done = run_command(command);
  ensure(done.has_value() && done->code == 0, "git clones the repository");
  return done->seconds;
}

awaitable<void> wait_for_answer(HttpUrl url) {
  auto is_answered = [](Asker& router) -> awaitable<Result<>> {
    HttpAsk ask{"POST", "/v1/search"};
    ask.body = R"({"q":"zqxjkvbnw","repos":["measured"],"wait_ms":60000,"timeout_ms":60000})";
    auto reply = co_await router.ask(std::move(ask), Clock::now() + 180s);
    if (!reply) co_return std::unexpected(reply.error());
    if (reply->status != 200 || !reply->body.contains(R"("complete":true)"))
      co_return fail(Errc::unavailable, "{}", reply->body);
    co_return ok;
  };
  Asker client(co_await asio::this_coro::executor, std::move(url));
  co_await eventually(600s, "it is answered", is_answered, client);
}

// In a fleet that has nothing yet, not even a mirror of the repository.
double add_and_ask(const Corpus& corpus) {
  FleetProcesses fleet(fs::path(corpus.repository).parent_path());
  fleet.start_node("n1");
  fleet.start_router();
  auto begin = Clock::now();
  fleet.add({corpus.repository, "--as", "measured"});
  run(wait_for_answer(fleet.url()), 600s);
  return seconds_since(begin);
}

double gigabytes(const std::string& folder) {
  std::uintmax_t bytes = 0;
  for (const auto& file : fs::recursive_directory_iterator(folder))
    if (!file.is_symlink() && file.is_regular_file()) bytes += file.file_size();
  return static_cast<double>(bytes) / 1e9;
}

}  // namespace

void bench_first_answer(const std::string& package) {
  auto corpus = fetch_corpus(package);
  ensure(corpus.has_value(), "the corpus is there");
  std::vector<double> answered, cloned;
  for (int round = 0; round < rounds; ++round) {
    answered.push_back(add_and_ask(*corpus));
    cloned.push_back(clone(*corpus));
    fmt::print(stderr, "fleet: {} answers after {:.2f} s, the clone took {:.2f} s\n", package,
               answered.back(), cloned.back());
  }
  auto limit = 1.2 * median(cloned) + 0.5 + 4 * gigabytes(corpus->folder);
  print({.bench = fmt::format("fleet.first_answer.{}", package),
         .value = median(answered),
         .unit = "s",
         .bar = limit,
         .better = Better::lower});
  print({.bench = fmt::format("fleet.first_answer.{}.beside_clone", package),
         .value = median(answered),
         .unit = "s",
         .peer = "git clone",
         .peer_value = median(cloned),
         .better = Better::lower});
}

}  // namespace warren::bench
