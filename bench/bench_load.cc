// Starts an instance beside a large cluster: the time from its first connection to Redis until the
// whole cluster is in its memory and in its routing table.
#include "bench_foghorn.h"
#include "measure.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"
#include "report.h"
#include "services/foghorn/balance/view.h"
#include "services/foghorn/state/cluster.h"

namespace warren::bench {

namespace {

using foghorn::Cluster;

constexpr int nodes = 1000, streams = 20'000, on_each = 60, rounds = 5;

struct Instance {
  std::unique_ptr<redis::Client> client;
  std::unique_ptr<Cluster> cluster;
};

awaitable<Instance> start(unsigned short port, std::string id) {
  auto executor = co_await asio::this_coro::executor;
  redis::Settings settings;
  settings.addresses = {{"127.0.0.1", port, ""}};
  auto client = redis::Client::create(executor, std::move(settings));
  ensure(client.has_value(), "a client is made");
  foghorn::ClusterTerms terms;
  terms.instance_id = std::move(id);
  auto cluster = Cluster::create(executor, client->get(), std::move(terms));
  ensure(cluster.has_value(), "a cluster is made");
  auto started = co_await (*cluster)->start(Clock::now() + 60s);
  ensure(started.has_value(), "the cluster starts");
  co_return Instance{*std::move(client), *std::move(cluster)};
}

awaitable<void> stop(Instance& instance) {
  co_await instance.cluster->close();
  co_await instance.client->close();
}

// Each stream is on three nodes, and produced on one of them.
foghorn::NodeReport report_of(int node) {
  foghorn::NodeReport report;
  report.cpu_tenths = 100;
  report.ram_max = 64e9, report.ram_current = 8e9;
  report.up_speed = 1e6, report.down_speed = 1e6, report.bw_limit = 1e9;
  report.latitude = 1 + node % 60, report.longitude = 4.3;
  report.base_url = fmt::format("https://edge-{}.example", node);
  report.cap_edge = true;
  auto& carried = report.streams.emplace();
  for (int i = 0; i < on_each; ++i) {
    auto& stream = carried[fmt::format("stream-{}", (node * streams / nodes + i) % streams)];
    stream.inputs = 1, stream.total = 10, stream.viewers = 9, stream.replicated = i >= 20;
    stream.tenant_id = "tenant";
  }
  return report;
}

awaitable<void> fill(unsigned short port) {
  auto first = co_await start(port, "first");
  for (int node = 0; node < nodes; ++node) {
    auto told = first.cluster->report(fmt::format("edge-{}", node), report_of(node));
    ensure(told.has_value(), "a report is taken");
  }
  auto is_written = [](Cluster& cluster) { return cluster.waiting_changes() == 0; };
  co_await eventually(60s, "all is written", is_written, *first.cluster);
  co_await stop(first);
}

awaitable<void> load(unsigned short port, std::vector<double>& seconds) {
  auto begun = Clock::now();
  auto next = co_await start(port, "next");
  seconds.push_back(seconds_since(begun));
  ensure(next.cluster->nodes().size() == nodes, "every node is loaded");
  ensure(balance::stream_count(next.cluster->table_here()) == streams, "and every stream");
  co_await stop(next);
}

}  // namespace

void bench_load() {
  RedisServer server;
  pin(server.pid(), 0);
  run(fill(server.port()), 120s);
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) run(load(server.port(), seconds), 120s);
  print({"foghorn.load_81000", median(seconds), "s", "", {}, 1.0, Better::lower});
}

}  // namespace warren::bench
