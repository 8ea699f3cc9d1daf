// The start of an instance beside a large cluster: 1,000 nodes, 20,000 streams, 60,000 instances. How
// long it takes is measured by `make bench PART=foghorn`.
#include <ctime>

#include "services/foghorn/balance/view.h"
#include "with_clusters.h"

using namespace warren;
using namespace warren::foghorn;

namespace {

constexpr int nodes = 1000, streams = 20'000, on_each = 60;

std::string stream_name(int number) { return "s" + std::to_string(number % streams); }

NodeReport report_of_node(int node) {
  auto report = report_of(0);
  for (int i = 0; i < on_each; ++i) {
    auto& stream = (*report.streams)[stream_name(node * streams / nodes + i)];
    stream.inputs = 1, stream.total = 10, stream.viewers = 9, stream.replicated = i >= 20;
  }
  return report;
}

// Of this process, whatever else the machine does.
double seconds_worked() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

TEST_CASE("who starts beside a large cluster is ready with all of it, and soon") {
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        for (int i = 0; i < nodes; ++i)
          REQUIRE(a.report("n" + std::to_string(i), report_of_node(i)));
        auto written = [](Cluster& c) { return c.waiting_changes() == 0; };
        co_await eventually(60s, "all is written", written, a);
        CHECK(std::stoi(s.cli({"DBSIZE"})) >= 81'000);

        auto terms = cluster_terms("late");
        terms.stale_after = 1h;  // writing it all may take a while
        auto late = co_await make_member(settings_for(s), terms);
        auto& b = *late->cluster;
        CHECK(b.health() == MirrorHealth::loading);
        auto worked = seconds_worked();
        auto started = co_await b.start(Clock::now() + 60s);
        worked = seconds_worked() - worked;
        REQUIRE(started);
        CHECK_MESSAGE(worked < 3, worked, " s");
        auto is_current = [](Cluster& c) { return c.health() == MirrorHealth::current; };
        co_await eventually(30s, "it hears from Redis", is_current, b);
        CHECK(b.nodes().size() == nodes);
        CHECK(std::ranges::all_of(b.nodes(), &NodeView::is_active));
        CHECK(balance::stream_count(b.table_here()) == streams);
        for (int i = 0; i < streams; i += 999) {
          auto stream = stream_name(i);
          balance::Query query;
          query.stream = stream;
          CHECK(!balance::choose(b.table_here(), query).empty());
          CHECK(balance::holders(b.table_here(), stream).size() == 3);
        }
        CHECK(a.digest() == b.digest());
        co_await stop_member(*late);
      },
      server);
}
