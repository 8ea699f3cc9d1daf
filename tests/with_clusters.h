#pragma once
// Instances of one cluster for the length of a test, each with a client of its own.
#include "services/foghorn/state/cluster.h"
#include "with_client.h"

namespace warren::foghorn {

struct Member {
  std::unique_ptr<redis::Client> client;
  std::unique_ptr<Cluster> cluster;
};
using Members = std::vector<std::unique_ptr<Member>>;

inline ClusterTerms cluster_terms(std::string instance, std::string cluster = "abc") {
  ClusterTerms terms;
  terms.cluster_id = std::move(cluster);
  terms.instance_id = std::move(instance);
  terms.sweep_interval = 250ms;
  terms.restore_time = 1s;  // so that members agree soon on what ended while Redis was lost
  return terms;
}

inline awaitable<std::unique_ptr<Member>> make_member(redis::Settings settings,
                                                      ClusterTerms terms) {
  auto member = std::make_unique<Member>();
  auto executor = co_await asio::this_coro::executor;
  auto client = redis::Client::create(executor, std::move(settings));
  REQUIRE(client);
  member->client = std::move(*client);
  auto cluster = Cluster::create(executor, member->client.get(), std::move(terms));
  REQUIRE(cluster);
  member->cluster = std::move(*cluster);
  co_return member;
}

inline awaitable<std::unique_ptr<Member>> start_member(redis::Settings settings,
                                                       ClusterTerms terms) {
  auto member = co_await make_member(std::move(settings), std::move(terms));
  auto started = co_await member->cluster->start(Clock::now() + 20s);
  if (!started) FAIL(started.error().what);
  co_return member;
}

inline awaitable<void> stop_member(Member& member) {
  co_await member.cluster->close();
  co_await member.client->close();
}

// with_clusters({settings, settings}, [](Members& all, …) -> awaitable<void> …): a, b, c…
template <class Body, class... Args>
void with_clusters(std::vector<redis::Settings> settings, Body body, Args&... args) {
  auto session = [](std::vector<redis::Settings>& s, Body& b, Args&... a) -> awaitable<void> {
    Members all;
    for (std::size_t i = 0; i < s.size(); ++i) {
      auto terms = cluster_terms(std::string(1, static_cast<char>('a' + i)));
      auto member = co_await start_member(s[i], std::move(terms));
      all.push_back(std::move(member));
    }
    std::exception_ptr thrown;
    try {
      co_await b(all, a...);
    } catch (...) {
      thrown = std::current_exception();
    }
    for (auto& member : all) co_await stop_member(*member);
    if (thrown) std::rethrow_exception(thrown);
  };
  run(session(settings, body, args...), 120s);
}

// A node that can serve, with streams "s0", "s1"… of which it is the origin.
inline NodeReport report_of(int streams, double cpu_tenths = 100) {
  NodeReport report;
  report.cpu_tenths = cpu_tenths;
  report.ram_max = 64e9, report.ram_current = 8e9;
  report.up_speed = 1e6, report.down_speed = 1e6, report.bw_limit = 1e9;
  report.latitude = 52.1, report.longitude = 4.3;
  report.base_url = "https://edge.example";
  report.cap_edge = true;
  auto& all = report.streams.emplace();
  for (int i = 0; i < streams; ++i) {
    auto& stream = all["s" + std::to_string(i)];
    stream.inputs = 1, stream.total = 10, stream.viewers = 9;
    stream.tenant_id = "t1";
  }
  return report;
}

// The first thing on which they do not agree.
inline std::string difference(const Cluster& a, const Cluster& b) {
  auto texts = [](const Cluster& c) {
    std::map<std::string, std::string> all;
    for (const auto& node : c.nodes()) {
      all["node " + node.state.node_id] = to_json(node.state);
      all["mode " + node.state.node_id] = name(node.mode);
    }
    for (const auto& stream : c.streams()) {
      all["stream " + stream.state.internal_name] = to_json(stream.state);
      for (const auto& each : stream.instances)
        all["instance " + each.internal_name + " " + each.node_id] = to_json(each);
    }
    for (const auto& artifact : c.artifacts())
      all["artifact " + artifact.content_id] = to_json(artifact);
    return all;
  };
  auto here = texts(a), there = texts(b);
  for (const auto& [name, text] : here)
    if (there[name] != text) return fmt::format("{}: {} is not {}", name, text, there[name]);
  for (const auto& [name, text] : there)
    if (here[name] != text) return fmt::format("{}: nothing is not {}", name, text);
  return "";
}

inline awaitable<void> eventually_equal(Cluster& a, Cluster& b, Clock::duration limit = 20s) {
  auto fact = [](Cluster& x, Cluster& y) -> Result<> {
    if (x.waiting_changes() + y.waiting_changes() > 0)
      return fail(Errc::timeout, "{} and {} changes wait", x.waiting_changes(),
                  y.waiting_changes());
    if (x.digest() == y.digest()) return ok;
    return fail(Errc::timeout, "{}", difference(x, y));
  };
  co_await eventually(limit, "both know the same", fact, a, b);
}

}  // namespace warren::foghorn
