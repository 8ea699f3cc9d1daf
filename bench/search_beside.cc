// Our search compared with a server that speaks zoekt's JSON, on the same files. Ours is called in
// this process, while the peer also handles HTTP and JSON, so the peer's own timing is shown as
// well.
#include "measure.h"
#include "search_measure.h"
#include "search_peer.h"

namespace warren::bench {

namespace {

struct Beside {
  const Stage& stage;
  PeerClient& peer;
  std::string name;

  void ask_once(const QueryClass& of) {
    auto query = search::parse_query(of.query);
    ensure(query.has_value(), "the queries of a benchmark are sound");
    for (auto kind : {PeerTerms::all, PeerTerms::bounded}) {
      bool is_all = kind == PeerTerms::all;
      auto terms = is_all ? counting(2) : bounded();
      search::Answer ours;
      PeerAnswer theirs;
      std::vector<double> own;  // measured by the peer
      std::vector<Contender> both(2);
      both[0].once = [&]() -> Result<double> {
        auto start = Clock::now();
        auto answer = search::search({&stage.whole.indexed, 1}, *query, terms);
        if (!answer) return std::unexpected(answer.error());
        double ms = seconds_since(start) * 1e3;
        ours = std::move(*answer);
        return ms;
      };
      both[1].once = [&]() -> Result<double> {
        auto start = Clock::now();
        auto answer = peer.ask(of.for_peer(), kind);
        if (!answer) return std::unexpected(answer.error());
        theirs = *answer;
        own.push_back(static_cast<double>(theirs.duration.count()) / 1e6);
        return seconds_since(start) * 1e3;
      };
      take_turns(both);
      if (both[0].times.empty() || both[1].times.empty()) continue;
      Row row{.bench = fmt::format("search.{}.{}.{}", stage.corpus.package, of.name,
                                   is_all ? "all" : "bounded"),
              .value = both[0].p50(),
              .unit = "ms",
              .peer = name,
              .peer_value = both[1].p50(),
              .better = Better::lower,
              .p99 = both[0].p99(),
              .peer_p99 = both[1].p99()};
      if (is_all) row.difference = compare(ours, theirs);
      judge(row);
      row.bench += ".engine";
      row.peer_value = median(own);
      row.peer_p99 = percentile_99(own);
      print(row);
    }
  }

  static std::string compare(const search::Answer& ours, const PeerAnswer& theirs) {
    if (ours.file_count == theirs.file_count && ours.match_count == theirs.match_count) return "";
    return fmt::format("ours {} in {} files, theirs {} in {}", ours.match_count, ours.file_count,
                       theirs.match_count, theirs.file_count);
  }
};

using Classes = std::vector<const QueryClass*>;

// The classes that both can answer. A refusal is reported and does not end the comparison.
Result<Classes> asked_of_both(const Stage& stage, PeerClient& peer) {
  auto classes = mixed(stage);
  std::vector<std::string> queries;
  for (const auto* one : classes) queries.push_back(one->for_peer());
  auto refused = refused_by(peer, queries);
  if (!refused) return std::unexpected(refused.error());
  Classes both;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    auto why = refused->find(i);
    if (why == refused->end())
      both.push_back(classes[i]);
    else
      fmt::print(stderr, "search: left out {}, which the peer refuses: {}\n", classes[i]->name,
                 why->second);
  }
  if (both.empty()) return fail(Errc::refused, "the peer refuses every query");
  return both;
}

Result<std::vector<double>> loop_of_peer(const Classes& classes, const std::string& url,
                                         int clients, double seconds) {
  return closed_loop(clients, seconds, [&](int) -> Ask {
    auto made = PeerClient::make(url);
    // Shared by the copies of the function, all for one client.
    std::shared_ptr<PeerClient> client;
    if (made) client = std::make_shared<PeerClient>(std::move(*made));
    return [client, &classes](std::size_t question) -> Result<> {
      if (!client) return fail(Errc::invalid, "no such peer");
      auto answer = client->ask(classes[question % classes.size()]->for_peer(), PeerTerms::bounded);
      if (!answer) return std::unexpected(answer.error());
      return ok;
    };
  });
}

}  // namespace

Result<> bench_peer(const Stage& stage, const std::string& url) {
  auto peer = PeerClient::make(url);
  if (!peer) return std::unexpected(peer.error());
  auto classes = asked_of_both(stage, *peer);
  if (!classes) return std::unexpected(classes.error());
  Beside beside{stage, *peer, url};
  for (const auto* of : *classes) {
    fmt::print(stderr, "search: {} {}\n", stage.corpus.package, of->name);
    beside.ask_once(*of);
  }
  constexpr double seconds = 10;
  for (int clients : {1, 4, 16}) {
    fmt::print(stderr, "search: {} clients\n", clients);
    auto ours = loop_of_ours(stage, *classes, clients, seconds);
    if (!ours) return std::unexpected(ours.error());
    auto theirs = loop_of_peer(*classes, url, clients, seconds);
    if (!theirs) return std::unexpected(theirs.error());
    if (ours->empty() || theirs->empty()) return fail(Errc::timeout, "no answer in time");
    auto name = fmt::format("search.{}.clients_{}", stage.corpus.package, clients);
    print({.bench = name,
           .value = median(*ours),
           .unit = "ms",
           .peer = url,
           .peer_value = median(*theirs),
           .better = Better::lower,
           .p99 = percentile_99(*ours),
           .peer_p99 = percentile_99(*theirs)});
    print({.bench = name + ".rate",
           .value = static_cast<double>(ours->size()) / seconds,
           .unit = "1/s",
           .peer = url,
           .peer_value = static_cast<double>(theirs->size()) / seconds});
  }
  return ok;
}

}  // namespace warren::bench
