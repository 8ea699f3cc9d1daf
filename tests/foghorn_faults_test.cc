// What happens to Redis, and to the way there, while nodes go on reporting to two instances.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <sstream>

#include "proof/testkit/faulty_link.h"
#include "services/foghorn/balance/view.h"
#include "services/foghorn/http/surface.h"
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

// Under load: the fault, then rest, then both must agree soon, by what the machine takes without one.
template <class Fault, class... Args>
awaitable<void> survive(Members& all, Fault fault, Args&... args) {
  for (std::size_t m = 0; m < all.size(); ++m)
    for (int i = 0; i < nodes_each; ++i)
      REQUIRE(all[m]->cluster->report(node_name(m, i), report_of(streams_each)));
  auto reported = Clock::now();
  co_await eventually_equal(*all[0]->cluster, *all[1]->cluster);
  auto usual = Clock::now() - reported;
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
  CHECK(took < 2s + 10 * usual);
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

// What /readyz says, asked by a program of this machine.
struct Readiness {
  unsigned status;
  boost::json::object says;
};
Readiness readiness(Cluster& cluster) {
  Metrics metrics;
  Surface surface({{&cluster, nullptr}}, metrics, {});
  HttpRequest request{.method = "GET", .path = "/readyz", .query = "", .body = ""};
  request.client = asio::ip::make_address("127.0.0.1");
  request.headers[0] = {"Host", "localhost"};
  request.header_count = 1;
  HttpAnswer answer;
  CHECK(!surface.answer(request, answer));
  return {static_cast<unsigned>(answer.status), boost::json::parse(answer.body).as_object()};
}

// Which grant of an id is the last: each has a name of its own, "holder/number".
std::string grant_of_id(RedisServer& owner, const std::string& instance) {
  auto fence = owner.cli({"GET", "{abc}:instance:" + instance + ":fence"});  // epoch counter name …
  std::istringstream words(fence);
  std::string epoch, counter, name;
  words >> epoch >> counter >> name;
  REQUIRE(name.contains('/'));
  return name;
}

// For three times as long as an id lasts without a renewal, and changes wait all the time.
awaitable<void> stays_degraded(Cluster& cluster) {
  for (auto end = Clock::now() + 15s; Clock::now() < end; co_await sleep_for(50ms)) {
    auto [status, says] = readiness(cluster);
    CAPTURE(boost::json::serialize(says));
    REQUIRE(status == 200);  // who asks is answered
    REQUIRE(says.at("status") == "degraded");
    const auto& here = says.at("clusters").at(0).as_object();
    REQUIRE(here.at("waiting_changes").as_int64() > 0);
    REQUIRE(!here.contains("problem"));
  }
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
        auto refused = [](RedisServer& r) { return !r.cli({"ACL", "LOG"}).empty(); };
        co_await eventually(20s, "Redis has refused it", refused, s);
        CHECK(a.node("n1")->state.cpu == 77.7);  // as the node said last
        CHECK(s.cli({"EXISTS", "{abc}:nodes:n2"}) == "0");
        s.cli({"ACL", "SETUSER", "f", "+set"});
        co_await eventually(20s, "all is written", written, a);
        CHECK(s.cli({"EXISTS", "{abc}:nodes:n2"}) == "1");
        auto stored = parse_node(s.cli({"GET", "{abc}:nodes:n1"}));
        REQUIRE(stored);
        CHECK(stored->cpu == 77.7);
      },
      server);
}

TEST_CASE("who lost its id to another process says so, and uses it no longer") {
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        REQUIRE(a.report("n1", report_of(1)));
        s.cli({"FLUSHALL"});
        auto twin = co_await start_member(settings_for(s), cluster_terms("a"));
        auto has_lost_it = [](Cluster& c) { return c.problem().has_value(); };
        co_await eventually(30s, "it says so", has_lost_it, a);
        auto lost = co_await a.lost_id();
        CHECK(lost.code == Errc::held_elsewhere);
        CHECK(a.problem()->what.contains("FOGHORN_INSTANCE_ID"));
        // Nothing is taken any more, and nothing is written.
        auto taken = a.report("n2", report_of(1));
        REQUIRE(!taken);
        CHECK(taken.error().code == Errc::held_elsewhere);
        a.redirect("n1", "s0", "1.1.1.1");
        REQUIRE(twin->cluster->report("n3", report_of(1)));
        auto written = [](Cluster& c) { return c.waiting_changes() == 0; };
        co_await eventually(20s, "the other has written", written, *twin->cluster);
        co_await sleep_for(500ms);  // two of its turns to share penalties
        CHECK(s.cli({"EXISTS", "{abc}:penalties:a", "{abc}:nodes:n2"}) == "0");
        CHECK(a.node("n1"));  // who asks is still answered
        co_await stop_member(*twin);
      },
      server);
}

TEST_CASE("an instance whose Redis takes no writes any more is degraded until one does") {
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        CHECK(a.health() == MirrorHealth::current);
        s.cli({"REPLICAOF", "127.0.0.1", "1"});
        REQUIRE(a.report("n1", report_of(1)));
        auto is_told = [](Cluster& c) { return c.health() == MirrorHealth::degraded; };
        co_await eventually(20s, "it is degraded", is_told, a);
        CHECK(a.node("n1"));  // who asks is answered all the same
        s.cli({"REPLICAOF", "NO", "ONE"});
        auto is_well = [](Cluster& c) {
          return c.health() == MirrorHealth::current && c.waiting_changes() == 0;
        };
        co_await eventually(30s, "it is well again, and all is written", is_well, a);
        CHECK(s.cli({"EXISTS", "{abc}:nodes:n1"}) == "1");
      },
      server);
}

TEST_CASE("an instance keeps its id while its slot moves, and /readyz says what waits meanwhile") {
  RedisCluster cluster;
  with_clusters(
      {settings_for(cluster)},
      [](Members& all, RedisCluster& c) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        REQUIRE(a.report("n1", report_of(1)));
        auto is_written = [](Cluster& x) { return x.waiting_changes() == 0; };
        co_await eventually(20s, "it is written", is_written, a);
        CHECK(readiness(a).says.at("status") == "healthy");
        int slot = redis::slot_of("{abc}:");
        auto& from = c.owner(slot);
        auto& to = &from == &c.node(0) ? c.node(1) : c.node(0);
        auto grant = grant_of_id(from, "a");

        c.begin_migration(slot, from, to);
        REQUIRE(a.report("n2", report_of(1)));  // new keys and old ones: no server takes them all
        auto is_told = [](Cluster& x) { return readiness(x).says.at("status") == "degraded"; };
        co_await eventually(20s, "it says that changes wait", is_told, a);
        co_await stays_degraded(a);
        CHECK(balance::holders(a.table_here(), "s0").size() == 2);

        c.move_keys(slot, from, to);
        c.end_migration(slot, from, to);
        auto is_well = [](Cluster& x) { return readiness(x).says.at("status") == "healthy"; };
        co_await eventually(30s, "it is well again", is_well, a);
        co_await eventually(20s, "all is written", is_written, a);
        CHECK(to.cli({"EXISTS", "{abc}:nodes:n2"}) == "1");
        CHECK(grant_of_id(to, "a") == grant);  // it was never lost in between
        CHECK(!a.problem());
      },
      cluster);
}
