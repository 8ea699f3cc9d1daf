// What happens to Redis, and to the way there, while nodes go on reporting to two instances.
#include "proof/testkit/faulty_link.h"
#include "services/foghorn/balance/view.h"
#include "with_clusters.h"

using namespace warren;
using namespace warren::foghorn;

namespace {

constexpr int nodes_each = 10, streams_each = 20;

std::string node_name(std::size_t member, int i) { return fmt::format("n{}-{}", member, i); }

// Nodes that report to each instance, now this one and now that, until `goes_on` is false.
awaitable<void> keep_reporting(Members& all, bool& goes_on) {
  int round = 0;
  while (goes_on) {
    ++round;
    for (std::size_t m = 0; m < all.size(); ++m) {
      auto report = report_of(streams_each, round % 1000);
      for (auto& [name, stream] : *report.streams) stream.bytes_up = round;
      if (round % 3 == 0) report.streams->erase("s3");  // one that comes and goes
      auto taken = all[m]->cluster->report(node_name(m, round % nodes_each), report);
      REQUIRE(taken);
      // Viewers are answered throughout.
      balance::Query query;
      query.stream = "s1";
      CHECK(!balance::choose(all[m]->cluster->table_here(), query).empty());
    }
    co_await sleep_for(5ms);
  }
}

// Under load: the fault, then rest, then both must agree soon.
template <class Fault, class... Args>
awaitable<void> survive(Members& all, Fault fault, Args&... args) {
  for (std::size_t m = 0; m < all.size(); ++m)
    for (int i = 0; i < nodes_each; ++i)
      REQUIRE(all[m]->cluster->report(node_name(m, i), report_of(streams_each)));
  co_await eventually_equal(*all[0]->cluster, *all[1]->cluster);
  bool goes_on = true;
  TaskGroup load(co_await asio::this_coro::executor);
  load.start("load", keep_reporting(all, goes_on));
  std::exception_ptr thrown;
  try {
    co_await fault(all, args...);
  } catch (...) {
    thrown = std::current_exception();
  }
  goes_on = false;
  co_await load.join();
  if (thrown) std::rethrow_exception(thrown);
  auto began = Clock::now();
  co_await eventually_equal(*all[0]->cluster, *all[1]->cluster, 30s);
  auto took = Clock::now() - began;
  MESSAGE("equal after " << std::chrono::duration<double>(took).count() << " s");
  CHECK(took < 2s);
  for (auto& member : all) {
    CHECK(member->cluster->nodes().size() == all.size() * nodes_each);
    for (const auto& node : member->cluster->nodes()) CHECK(node.is_active);
    CHECK(member->cluster->health() == MirrorHealth::current);
  }
}

awaitable<void> wait_until_current(Members& all) {
  auto fact = [](Members& m) {
    return std::ranges::all_of(
        m, [](auto& each) { return each->cluster->health() == MirrorHealth::current; });
  };
  co_await eventually(30s, "all hear from Redis", fact, all);
}

awaitable<void> wait_until_away(Cluster& cluster) {
  auto fact = [](Cluster& c) { return c.health() == MirrorHealth::degraded; };
  co_await eventually(30s, "Redis is away", fact, cluster);
}

redis::Settings quick(redis::Settings settings) {
  settings.connect_timeout = 300ms;
  return settings;
}

}  // namespace

TEST_CASE("while Redis is paused each instance goes on with its own nodes, and then they agree") {
  RedisServer server;
  with_clusters(
      {settings_for(server), settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto pause = [](Members& m, RedisServer& r) -> awaitable<void> {
          r.pause();
          co_await wait_until_away(*m[0]->cluster);
          r.resume();
          co_await wait_until_current(m);
        };
        co_await survive(all, pause, s);
      },
      server);
}

TEST_CASE("an instance whose link is cut goes on with its own nodes, and catches up") {
  RedisServer server;
  FaultyLink link(server.port());
  with_clusters(
      {settings_for(server), quick(settings_for(link.port()))},
      [](Members& all, FaultyLink& l) -> awaitable<void> {
        auto cut = [](Members& m, FaultyLink& faulty) -> awaitable<void> {
          faulty.cut();
          co_await wait_until_away(*m[1]->cluster);
          auto& cpu = m[0]->cluster;
          auto before = cpu->node(node_name(0, 1))->state.last_update;
          auto fact = [](Cluster& c, WallTime& then) {
            return c.node(node_name(0, 1))->state.last_update > then;
          };
          co_await eventually(20s, "the other goes on", fact, *cpu, before);
          faulty.heal();
          co_await wait_until_current(m);
        };
        co_await survive(all, cut, l);
      },
      link);
}

TEST_CASE("a Redis that comes back empty is told again what each instance was told, and modes") {
  RedisServer server;
  with_clusters(
      {quick(settings_for(server)), quick(settings_for(server))},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto kill = [](Members& m, RedisServer& r) -> awaitable<void> {
          REQUIRE(m[0]->cluster->set_mode(node_name(1, 2), balance::NodeMode::draining, "ann"));
          REQUIRE(m[0]->cluster->add_artifact(node_name(0, 1), {"c1", "clip", "/c1", 1}));
          r.kill();
          r.restart();
          co_await wait_until_current(m);
        };
        co_await survive(all, kill, s);
        for (auto& member : all) {
          CHECK(member->cluster->node(node_name(1, 2))->mode == balance::NodeMode::draining);
          CHECK(member->cluster->artifact("c1"));
        }
        CHECK(s.cli({"EXISTS", "{abc}:nodes:n0-1", "{abc}:nodes:n1-1", "{abc}:node_mode:n1-2",
                     "{abc}:artifacts:c1", "{abc}:stream_instances:s1:n1-1"}) == "5");
      },
      server);
}

TEST_CASE("a failover by Sentinel under load leaves both with the same, and with all of it") {
  SentinelTrio trio;
  with_clusters(
      {settings_for(trio), settings_for(trio)},
      [](Members& all, SentinelTrio& t) -> awaitable<void> {
        auto fail_over = [](Members& m, SentinelTrio& three) -> awaitable<void> {
          auto before = m[0]->client->epoch();
          three.primary().kill();
          auto fact = [](Members& each, std::uint64_t& epoch) {
            return each[0]->client->epoch() > epoch && each[1]->client->epoch() > epoch;
          };
          co_await eventually(60s, "both know the new primary", fact, m, before);
          co_await wait_until_current(m);
        };
        co_await survive(all, fail_over, t);
      },
      trio);
}

TEST_CASE("in a Redis Cluster it is the same, also when the shard fails over") {
  RedisCluster cluster;
  with_clusters(
      {settings_for(cluster), settings_for(cluster)},
      [](Members& all, RedisCluster& c) -> awaitable<void> {
        auto fail_over = [](Members& m, RedisCluster& servers) -> awaitable<void> {
          auto before = m[0]->client->epoch();
          servers.owner(servers.slot("{abc}:")).kill();
          auto fact = [](Members& each, std::uint64_t& epoch) {
            return each[0]->client->epoch() > epoch && each[1]->client->epoch() > epoch;
          };
          co_await eventually(60s, "both know the new primary", fact, m, before);
          co_await wait_until_current(m);
        };
        co_await survive(all, fail_over, c);
      },
      cluster);
}

TEST_CASE("a write that is refused is not lost: it is said again when it may be") {
  RedisServer server({.users = {"f on >p ~{abc}:* &foghorn:{abc}:* +@all"}});
  auto settings = settings_for(server);
  settings.credentials.username = "f", settings.credentials.password = "p";
  with_clusters(
      {settings},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        REQUIRE(a.report("n1", report_of(1)));
        auto written = [](Cluster& c) { return c.waiting_changes() == 0; };
        co_await eventually(20s, "it is written", written, a);
        s.cli({"ACL", "SETUSER", "f", "-set"});
        REQUIRE(a.report("n2", report_of(1)));
        REQUIRE(a.report("n1", report_of(1, 777)));
        auto undone = [](Cluster& c) { return c.node("n1")->state.cpu == 10; };
        co_await eventually(20s, "n1 is as Redis has it", undone, a);
        s.cli({"ACL", "SETUSER", "f", "+set"});
        auto stored = [](RedisServer& r) { return r.cli({"EXISTS", "{abc}:nodes:n2"}) == "1"; };
        co_await eventually(20s, "n2 is written", stored, s);
      },
      server);
}

TEST_CASE("who lost its id to another process says so, and goes on") {
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        s.cli({"FLUSHALL"});
        auto twin = co_await start_member(settings_for(s), cluster_terms("a"));
        auto told = [](Cluster& c) { return c.problem().has_value(); };
        co_await eventually(30s, "it is told", told, a);
        CHECK(a.problem()->code == Errc::held_elsewhere);
        REQUIRE(a.report("n1", report_of(1)));
        co_await eventually_equal(a, *twin->cluster);
        co_await stop_member(*twin);
        auto mended = [](Cluster& c) { return !c.problem(); };
        co_await eventually(30s, "it has its id again", mended, a);
      },
      server);
}
