// A fleet of four nodes and a router with 500 repositories, searched for rare identifiers over
// HTTP: the overhead of the router compared with the nodes themselves, and how many queries a
// second the whole fleet answers, with the load generator on the same cores. If a peer is given,
// compares with a server that speaks zoekt's JSON and has indexed the same repositories.
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <random>

#include "bench_fleet.h"
#include "fleet_processes.h"
#include "measure.h"
#include "proof/testkit/run.h"
#include "report.h"
#include "search_peer.h"

namespace warren::bench {

namespace {

constexpr int repositories = 500;
constexpr int nodes = 4;
constexpr int rounds = 5;
constexpr std::size_t identifiers = 12'000;  // more than are sent before a result could be cached
constexpr int clients = 16;
constexpr auto round_time = 3s;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Words as they occur in programs, above a minimum length, each with the size of its file.
template <class Visit>
void each_word(const std::string& folder, Visit visit) {
  auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.is_symlink() || !file.is_regular_file() || file.file_size() > (2u << 20)) continue;
    auto text = text_of(file.path());
    if (text.contains('\0')) continue;
    for (auto begin = text.begin(); begin != text.end();) {
      begin = std::find_if(begin, text.end(), is_letter);
      auto end = std::find_if_not(begin, text.end(), is_letter);
      std::string_view word(begin, end);
      if (word.size() >= 8 && word.size() <= 40) visit(word, text.size());
      begin = end;
    }
  }
}

// Identifiers that occur once, spread over the corpus, in a random but fixed order. They come from
// files that zoekt does not skip for having too many trigrams.
std::vector<std::string> rare_identifiers(const std::string& folder) {
  constexpr std::size_t small_file = 64u << 10;
  std::vector<std::uint8_t> counts(1u << 25);
  auto count_of = [&](std::string_view word) -> std::uint8_t& {
    return counts[std::hash<std::string_view>()(word) % counts.size()];
  };
  each_word(folder, [&](std::string_view word, std::size_t) {
    if (auto& count = count_of(word); count < 2) ++count;
  });
  std::vector<std::string> all;
  each_word(folder, [&](std::string_view word, std::size_t file_bytes) {
    if (count_of(word) == 1 && file_bytes <= small_file) all.emplace_back(word);
  });
  ensure(all.size() >= identifiers, "the corpus has as many rare identifiers");
  std::ranges::sort(all);
  std::mt19937 random(1);
  std::ranges::shuffle(all, random);
  all.resize(identifiers);
  return all;
}

HttpAsk as_ours(const std::string& identifier) {
  return {"POST", "/v1/search", "Content-Type: application/json\r\n",
          fmt::format(R"({{"q":"{} case:yes"}})", identifier)};
}
HttpAsk as_zoekt(const std::string& identifier) {
  return {"POST", "/api/search", "Content-Type: application/json\r\n",
          peer_question(identifier + " case:yes", PeerTerms::bounded)};
}

// Many clients that each send one query after the other. No identifier is repeated before all were
// used.
struct Load {
  HttpUrl to;
  HttpAsk (*ask)(const std::string& identifier);
  const std::vector<std::string>& words;
  std::size_t& next;
  Clock::time_point until = {};
  std::vector<double> times_us = {};
};

awaitable<void> ask_on(Load& load) {
  Asker client(co_await asio::this_coro::executor, load.to);
  while (Clock::now() < load.until) {
    auto ask = load.ask(load.words[load.next++ % load.words.size()]);
    auto begin = Clock::now();
    auto reply = co_await reply_of(client, std::move(ask));
    load.times_us.push_back(seconds_since(begin) * 1e6);
    if (reply.body.contains(R"("file_count":0)")) fail_test("not found: " + reply.body);
  }
}

struct Speed {
  double rate = 0;
  std::vector<double> times_us = {};
};
awaitable<Speed> speed_of(Load load) {
  auto begin = Clock::now();
  load.until = begin + round_time;
  TaskGroup tasks(co_await asio::this_coro::executor);
  for (int i = 0; i < clients; ++i) tasks.start("bench.ask", ask_on(load));
  co_await tasks.join();
  auto rate = static_cast<double>(load.times_us.size()) / seconds_since(begin);
  co_return Speed{rate, std::move(load.times_us)};
}

// The results of one contender, over all rounds.
struct Contender {
  Load load;
  std::vector<double> rates = {}, medians_us = {}, cpu_us = {};

  awaitable<void> take_turn(FleetProcesses* fleet) {
    auto before = fleet ? fleet->cpu_seconds() : 0;
    auto speed = co_await speed_of(load);
    auto cpu = (fleet ? fleet->cpu_seconds() : 0) - before;
    rates.push_back(speed.rate);
    medians_us.push_back(median(speed.times_us));
    cpu_us.push_back(cpu * 1e6 / static_cast<double>(speed.times_us.size()));
  }
};

// In how many of these answers the number of files differs.
awaitable<std::string> difference(Load ours, Load theirs, std::size_t count) {
  auto executor = co_await asio::this_coro::executor;
  Asker our_client(executor, ours.to), their_client(executor, theirs.to);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& word = ours.words[i];
    auto our_reply = co_await reply_of(our_client, ours.ask(word));
    auto their_reply = co_await reply_of(their_client, theirs.ask(word));
    auto a = parse_peer_answer(our_reply.body), b = parse_peer_answer(their_reply.body);
    if (!a || !b) co_return (a ? b : a).error().what;
    if (a->file_count != b->file_count || a->match_count != b->match_count)
      co_return fmt::format("{}: ours {} in {} files, theirs {} in {}", word, a->match_count,
                            a->file_count, b->match_count, b->file_count);
  }
  co_return "";
}

awaitable<void> measure_rates(FleetProcesses& fleet, const std::vector<std::string>& words,
                              std::string peer_url) {
  std::size_t next = 0;
  Contender ours{{fleet.url(), as_ours, words, next}};
  Contender as_theirs{{fleet.url(), as_zoekt, words, next}};
  std::optional<Contender> theirs;
  std::string differs;
  if (!peer_url.empty()) {
    theirs.emplace(Load{*parse_http_url(peer_url), as_zoekt, words, next});
    differs = co_await difference(as_theirs.load, theirs->load, 300);
  }
  for (int round = 0; round < rounds; ++round) {
    co_await ours.take_turn(&fleet);
    if (theirs) co_await as_theirs.take_turn(&fleet);
    if (theirs) co_await theirs->take_turn(nullptr);
    fmt::print(stderr, "fleet: {:.0f} queries a second; {:.0f} us of router and nodes each\n",
               ours.rates.back(), ours.cpu_us.back());
  }
  print({.bench = "fleet.rare.rate", .value = median(ours.rates), .unit = "1/s", .bar = 2'000});
  print({.bench = "fleet.rare.p50", .value = median(ours.medians_us), .unit = "us"});
  print({.bench = "fleet.rare.cpu", .value = median(ours.cpu_us), .unit = "us"});
  if (!theirs) co_return;
  print({.bench = "fleet.rare.zoekt_api.rate",
         .value = median(as_theirs.rates),
         .unit = "1/s",
         .peer = peer_url,
         .peer_value = median(theirs->rates),
         .bar = 3,
         .difference = differs});
  print({.bench = "fleet.rare.zoekt_api.p50",
         .value = median(as_theirs.medians_us),
         .unit = "us",
         .peer = peer_url,
         .peer_value = median(theirs->medians_us),
         .better = Better::lower});
}

// The nodes of these repositories, queried all at once, as a router does.
class Direct {
 public:
  Direct(const asio::any_io_executor& executor, const std::vector<FleetProcesses::Route>& routes)
      : executor_(executor) {
    for (const auto& route : routes) {
      auto& node = nodes_[authority_of(route.endpoint)];
      if (!node.client) node.client = std::make_unique<Asker>(executor, route.endpoint);
      node.rows.push_back(route.row);
    }
  }
  // The time until the last of them has answered.
  awaitable<double> ask(const std::string& identifier) {
    for (auto& [name, node] : nodes_) {
      fleet::SearchAsk ask{.query = identifier + " case:yes"};
      ask.rows = fleet::rows_text(node.rows);
      node.ask = {"POST", "/v1/search", "", fleet::to_json(ask)};
    }
    auto begin = Clock::now();
    TaskGroup tasks(executor_);
    for (auto& [name, node] : nodes_) tasks.start("bench.direct", asked(node));
    co_await tasks.join();
    co_return seconds_since(begin) * 1e6;
  }

 private:
  struct Node {
    std::unique_ptr<Asker> client = {};
    std::vector<fleet::AskedRow> rows = {};
    HttpAsk ask = {};
  };
  static awaitable<void> asked(Node& node) {
    auto reply = co_await reply_of(*node.client, std::move(node.ask));
  }

  asio::any_io_executor executor_;
  std::map<std::string, Node> nodes_;
};

awaitable<double> ask_router(Asker& router, HttpAsk ask) {
  auto begin = Clock::now();
  auto reply = co_await reply_of(router, std::move(ask));
  co_return seconds_since(begin) * 1e6;
}

// Sends each identifier both ways, in alternating order: the second query finds warm caches.
awaitable<void> measure_overhead(Asker& router, Direct direct, std::string name, std::string repo,
                                 const std::vector<std::string>& words) {
  std::vector<double> overheads, routed, straight;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> by_router, by_nodes;
    for (std::size_t i = 0; i < words.size(); ++i) {
      auto ask = as_ours(words[i]);
      if (!repo.empty())
        ask.body = fmt::format(R"({{"q":"{} case:yes","repos":["{}"]}})", words[i], repo);
      if (i % 2 == 0) by_nodes.push_back(co_await direct.ask(words[i]));
      by_router.push_back(co_await ask_router(router, std::move(ask)));
      if (i % 2 == 1) by_nodes.push_back(co_await direct.ask(words[i]));
    }
    routed.push_back(median(by_router));
    straight.push_back(median(by_nodes));
    overheads.push_back((routed.back() - straight.back()) / 1e3);
  }
  print({.bench = fmt::format("fleet.router.{}.p50", name),
         .value = median(routed),
         .unit = "us",
         .peer = "the nodes themselves",
         .peer_value = median(straight),
         .better = Better::lower});
  print({.bench = fmt::format("fleet.router.{}.overhead", name),
         .value = median(overheads),
         .unit = "ms",
         .bar = 0.5,
         .better = Better::lower});
}

awaitable<std::string> repo_with(Asker& router, const std::string& identifier) {
  auto reply = co_await reply_of(router, as_ours(identifier));
  std::vector<fleet::Missing> missing;
  auto answer = fleet::parse_answer(reply.body, missing);
  if (!answer || answer->files.empty() || !missing.empty()) fail_test(reply.body);
  co_return answer->files[0].repo;
}

awaitable<void> measure(FleetProcesses& fleet, const std::vector<std::string>& words,
                        std::string peer_url) {
  auto routes = co_await fleet.routes_when_settled(repositories);
  auto executor = co_await asio::this_coro::executor;
  Asker router(executor, fleet.url());
  fmt::print(stderr, "fleet: {} repositories are served\n", routes.size());
  std::vector<std::string> some(words.begin(), words.begin() + 400);
  auto repo = co_await repo_with(router, some[0]);
  auto one = routes;
  std::erase_if(one, [&](const auto& route) { return route.repo != repo; });
  co_await measure_rates(fleet, words, std::move(peer_url));
  co_await measure_overhead(router, Direct(executor, one), "one", repo, some);
  co_await measure_overhead(router, Direct(executor, routes), "all", "", some);
}

}  // namespace

void bench_serving(const std::string& package, const std::string& peer_url) {
  auto folder = cut_corpus(package, repositories);
  auto words = rare_identifiers(folder.substr(0, folder.rfind('-')));
  TempFolder lists;
  auto list = lists.path() / "urls";
  std::ofstream out(list);
  for (const auto& one : std::filesystem::directory_iterator(folder))
    out << one.path().string() << '\n';
  out.close();
  FleetProcesses fleet(folder);
  for (int i = 1; i <= nodes; ++i) fleet.start_node(fmt::format("n{}", i));
  fleet.start_router();
  fleet.add({"--from", list.string()});
  run(measure(fleet, words, peer_url), 3600s);
}

}  // namespace warren::bench
