// A board with an orchestrator and agents, all of them clients of one server in one thread.
//
// The server has one core. Everything else has the other: the maker of goals, the agents of three
// roles, the orchestrator, and the watcher.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <string_view>
#include <unordered_map>

#include "base/log.h"
#include "measure.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"
#include "report.h"
#include "services/board/orchestrator/orchestrator.h"
#include "services/board/store/feed.h"

using namespace warren;
using namespace warren::bench;
using namespace warren::board;

namespace {

constexpr int goals = 10'000;
constexpr std::size_t window = 256;  // goals in progress
constexpr int latency_samples = 2'000;
const Words roles{"coder", "reviewer", "writer"};

template <class T>
T must(Result<T> result) {
  if (!result) fmt::print(stderr, "{}\n", result.error().what);
  ensure(result.has_value(), "the benchmark goes on");
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

Artefact goal() {
  Artefact artefact;
  artefact.type = "GoalDefined";
  artefact.payload = "a web page that shows the weather";
  artefact.produced_by_role = "user";
  return artefact;
}

std::unique_ptr<redis::Client> connect(const RedisServer& server, asio::any_io_executor executor) {
  redis::Settings settings;
  settings.addresses = {{"127.0.0.1", server.port(), ""}};
  settings.command_timeout = 60s;
  return must(redis::Client::create(executor, settings));
}

OrchestratorTerms terms() {
  OrchestratorTerms all;
  for (const auto& role : roles) all.roles[role] = {};
  return all;
}

awaitable<void> orchestrate(Orchestrator& orchestrator) {
  auto ended = co_await orchestrator.run();
  ensure(!ended, "an orchestrator ends when it is stopped");
}

// Runs the body beside an orchestrator with clients of its own.
template <class Body>
awaitable<void> beside_orchestrator(const RedisServer& server, Body body) {
  auto executor = co_await asio::this_coro::executor;
  auto ours = connect(server, executor), theirs = connect(server, executor);
  auto board = must(Board::open(*ours, "holt", "bench"));
  auto its_board = must(Board::open(*theirs, "holt", "bench"));
  auto key = board.keys().orchestrator() + ":fence";
  Orchestrator orchestrator(its_board, [key] { return Fence{key, {0, 1}}; }, terms());
  FeedTerms everything;
  everything.all_grants = true;
  BoardFeed feed(*ours, board.keys(), everything);
  must(co_await feed.settled(Clock::now() + 10s));
  TaskGroup tasks(executor);
  tasks.start("orchestrator", orchestrate(orchestrator));
  co_await orchestrator.ready();
  co_await body(board, feed);
  tasks.stop();
  co_await tasks.join();
  co_await feed.close();
  co_await ours->close();
  co_await theirs->close();
}

awaitable<void> measure_latency(Board& board, BoardFeed& feed) {
  std::vector<double> milliseconds;
  for (int i = 0; i < latency_samples; ++i) {
    auto start = Clock::now();
    auto made = must(co_await board.create_artefact(goal()));
    for (;;) {
      auto event = must(co_await feed.next(Clock::now() + 10s));
      if (auto* claim = std::get_if<Claim>(&event); claim && claim->artefact_id == made.id) break;
    }
    milliseconds.push_back(1e3 * seconds_since(start));
  }
  std::ranges::sort(milliseconds);
  auto at = [&](double part) { return milliseconds[std::size_t(part * latency_samples)]; };
  print({.bench = "board.artefact_to_claim_p50", .value = at(0.5), .unit = "ms"});
  print({.bench = "board.artefact_to_claim_p99",
         .value = at(0.99),
         .unit = "ms",
         .bar = 5,
         .better = Better::lower});
}

awaitable<void> bid(Board& board, std::string claim, std::string role) {
  must(co_await board.set_bid(std::move(claim), role,
                              role == "coder" ? BidType::exclusive : BidType::ignore));
}

awaitable<void> deliver(Board& board, std::string target) {
  Artefact made;
  made.structural_type = StructuralType::terminal;
  made.type = "Done";
  made.source_artefacts = {std::move(target)};
  made.produced_by_role = "coder";
  must(co_await board.create_artefact(std::move(made)));
}

awaitable<void> set_goal(Board& board) { must(co_await board.create_artefact(goal())); }

awaitable<void> measure_throughput(Board& board, BoardFeed& feed) {
  TaskGroup tasks(board.client().executor());
  std::unordered_map<std::string, std::string> targets;  // by claim
  int begun = 0, ended = 0;
  auto begin_one = [&] {
    if (begun++ < goals) tasks.start("goal", set_goal(board));
  };
  auto start = Clock::now();
  for (std::size_t i = 0; i < window; ++i) begin_one();
  while (ended < goals) {
    auto event = must(co_await feed.next(Clock::now() + 30s));
    if (auto* claim = std::get_if<Claim>(&event)) {
      targets[claim->id] = claim->artefact_id;
      for (const auto& role : roles) tasks.start("bid", bid(board, claim->id, role));
    } else if (auto* grant = std::get_if<Grant>(&event)) {
      tasks.start("deliver", deliver(board, targets.at(grant->claim_id)));
    } else if (auto* workflow = std::get_if<WorkflowEvent>(&event);
               workflow && workflow->name == "claim_completed") {
      ++ended;
      begin_one();
    }
    ensure(!std::holds_alternative<Gap>(event), "nothing is missed");
  }
  auto seconds = seconds_since(start);
  co_await tasks.join();
  print({.bench = "board.claims_through_3_bids",
         .value = goals / seconds,
         .unit = "1/s",
         .bar = 1000,
         .better = Better::higher});
}

awaitable<void> measure_hoard(Board& board, RedisServer& server) {
  server.cli({"DEBUG", "POPULATE", "1000000", "foreign"}, 60s);
  std::vector<double> milliseconds;
  for (int i = 0; i < 5; ++i) {
    auto start = Clock::now();
    Listing listing;
    listing.limit = 1000;
    std::size_t count = 0;
    do {
      auto page = must(co_await board.artefacts(listing));
      count += page.items.size();
      listing.after = page.next;
    } while (listing.after);
    milliseconds.push_back(1e3 * seconds_since(start));
    ensure(count == goals, "all are listed");
  }
  print({.bench = "board.hoard_10000_beside_1000000_keys",
         .value = median(milliseconds),
         .unit = "ms",
         .bar = 300,
         .better = Better::lower});
}

awaitable<void> bench_hoard(RedisServer& server) {
  auto executor = co_await asio::this_coro::executor;
  auto client = connect(server, executor);
  auto board = must(Board::open(*client, "holt", "bench"));
  TaskGroup tasks(executor);
  for (int i = 0; i < goals; ++i) {
    tasks.start("goal", set_goal(board));
    if (tasks.running() >= window) co_await tasks.join();
  }
  co_await tasks.join();
  co_await measure_hoard(board, server);
  co_await client->close();
}

RedisOptions populated() {
  RedisOptions options;
  options.config = {"enable-debug-command yes"};
  return options;
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): a benchmark whose server dies may end in any way.
int main(int argc, char** argv) {
  doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  log::Options quiet;
  quiet.levels = "error";
  if (!log::configure(quiet)) return 1;
  pin(0, 1);
  double load = 0;
  getloadavg(&load, 1);
  fmt::print(stderr, "load average {:.2f}; below 0.3 the figures are worth keeping\n", load);
  std::string_view part = argc > 1 ? argv[1] : "";  // all
  if (part.empty() || part == "latency") {
    RedisServer server;
    pin(server.pid(), 0);
    run(beside_orchestrator(server, measure_latency), 120s);
  }
  if (part.empty() || part == "claims") {
    RedisServer server;
    pin(server.pid(), 0);
    run(beside_orchestrator(server, measure_throughput), 120s);
  }
  if (part.empty() || part == "hoard") {
    RedisServer server(populated());
    pin(server.pid(), 0);
    run(bench_hoard(server), 120s);
  }
}
