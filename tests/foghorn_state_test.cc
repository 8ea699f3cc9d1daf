// Instances of one cluster on one Redis: what one is told, all know.
#include "balance/view.h"
#include "testkit/faulty_link.h"
#include "with_clusters.h"

using namespace warren;
using namespace warren::foghorn;

namespace {

constexpr std::string_view node_key = "{abc}:nodes:n1";

std::uint64_t calls(RedisServer& server, const std::string& command) {
  auto stats = server.cli({"INFO", "commandstats"});
  auto at = stats.find("cmdstat_" + command + ":calls=");
  if (at == stats.npos) return 0;
  return std::stoull(stats.substr(stats.find('=', at) + 1));
}

}  // namespace

TEST_CASE("what a node tells one instance, the others know, and Redis has it as documented") {
  RedisServer server;
  with_clusters(
      {settings_for(server), settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto& b = *all[1]->cluster;
        auto report = report_of(3);
        REQUIRE(a.report("n1", report));
        CHECK(a.node("n1")->is_active);
        CHECK(balance::find_stream(a.table_here(), "s1")->is_live);
        co_await eventually_equal(a, b);
        auto node = b.node("n1");
        REQUIRE(node);
        CHECK(node->is_active);
        CHECK(node->state.cpu == 10);
        CHECK(node->streams == 3);
        CHECK(node->viewers == 27);
        auto stored = parse_node(s.cli({"GET", std::string(node_key)}));
        REQUIRE(stored);
        CHECK(stored->base_url == "https://edge.example");
        CHECK(s.cli({"EXISTS", "{abc}:streams:s1", "{abc}:stream_instances:s1:n1"}) == "2");
        CHECK(balance::holders(b.table_here(), "s1").size() == 1);

        // And what it no longer carries.
        report.streams->erase("s1");
        REQUIRE(a.report("n1", report));
        co_await eventually_equal(a, b);
        CHECK(b.stream("s1")->instances.empty());
        CHECK(b.stream("s1")->state.status == "offline");
        CHECK(s.cli({"EXISTS", "{abc}:stream_instances:s1:n1"}) == "0");
      },
      server);
}

TEST_CASE("a report of 500 streams is one script, and one of which nothing changed is one value") {
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto report = report_of(500);
        auto written = [](Cluster& c) { return c.waiting_changes() == 0; };
        REQUIRE(a.report("n0", report_of(1)));  // so that the script is known
        co_await eventually(20s, "all is written", written, a);
        auto length = [](RedisServer& r) { return r.cli({"XLEN", "{abc}:mirror:log"}); };
        auto before = std::stoi(length(s));
        auto sets = calls(s, "set");
        REQUIRE(a.report("n1", report));
        co_await eventually(20s, "all is written", written, a);
        CHECK(std::stoi(length(s)) == before + 1);
        CHECK(calls(s, "set") >= sets + 1000);
        REQUIRE(a.report("n1", report));
        co_await eventually(20s, "all is written", written, a);
        CHECK(std::stoi(length(s)) == before + 2);
        CHECK(calls(s, "set") <= sets + 1010);
      },
      server);
}
