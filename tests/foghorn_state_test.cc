// Instances of one cluster on one Redis: what one is told, all know.
#include <random>

#include "proof/testkit/faulty_link.h"
#include "services/foghorn/balance/view.h"
#include "services/foghorn/state/core.h"
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

TEST_CASE(
    "a report that changes little writes little, and it is the newest value that is written") {
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto written = [](Cluster& c) { return c.waiting_changes() == 0; };
        s.pause();
        for (int i = 0; i < 50; ++i) REQUIRE(a.report("n1", report_of(2, i)));
        CHECK(a.waiting_changes() == 5);  // a node, two streams, two instances
        s.resume();
        co_await eventually(20s, "all is written", written, a);
        CHECK(parse_node(s.cli({"GET", std::string(node_key)}))->cpu == 4.9);
        CHECK(std::stoi(s.cli({"XLEN", "{abc}:mirror:log"})) <= 2);
      },
      server);
}

TEST_CASE("an instance that starts later, or again, has all of it and nothing that is gone") {
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto terms = cluster_terms("b");
        auto first = co_await start_member(settings_for(s), terms);
        for (int i = 0; i < 20; ++i) REQUIRE(a.report("n" + std::to_string(i), report_of(10)));
        REQUIRE(a.set_mode("n2", balance::NodeMode::draining, "ann"));
        REQUIRE(a.add_artifact("n1", {"c1", "clip", "/c1", 7}));
        co_await eventually_equal(a, *first->cluster);
        CHECK(first->cluster->node("n2")->mode == balance::NodeMode::draining);
        co_await stop_member(*first);
        REQUIRE(a.forget_node("n3"));
        REQUIRE(a.forget_stream("s4"));
        REQUIRE(a.remove_artifact("n1", "c1"));
        auto again = co_await start_member(settings_for(s), terms);
        co_await eventually_equal(a, *again->cluster);
        CHECK(!again->cluster->node("n3"));
        CHECK(!again->cluster->stream("s4"));
        CHECK(!again->cluster->artifact("c1"));
        CHECK(again->cluster->nodes().size() == 19);
        CHECK(again->cluster->node("n2")->mode == balance::NodeMode::draining);
        CHECK(again->cluster->node("n1")->is_active);  // by what it read, without a heartbeat
        CHECK(balance::stream_count(again->cluster->table_here()) == 9);
        co_await stop_member(*again);
      },
      server);
}

TEST_CASE("a second process with the same instance id is refused, and told what to do") {
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto twin = co_await make_member(settings_for(s), cluster_terms("a"));
        auto refused = co_await twin->cluster->start(Clock::now() + 20s);
        REQUIRE(!refused);
        CHECK(refused.error().code == Errc::held_elsewhere);
        CHECK(refused.error().what.contains("FOGHORN_INSTANCE_ID"));
        CHECK(!all[0]->cluster->problem());
        // Once the first one is gone, it may.
        co_await stop_member(*all[0]);
        auto started = co_await twin->cluster->start(Clock::now() + 20s);
        CHECK(started);
        all[0] = std::move(twin);
      },
      server);
}

TEST_CASE(
    "the user that is documented for a cluster may do all of it, and sees nothing of others") {
  RedisServer server({.users = {"foghorn-abc on >pass ~{abc}:* &foghorn:{abc}:* +@all",
                                "foghorn-xyz on >pass ~{xyz}:* &foghorn:{xyz}:* +@all"}});
  auto body = [](RedisServer& s) -> awaitable<void> {
    auto user = [&s](std::string name) {
      auto settings = settings_for(s);
      settings.credentials.username = "foghorn-" + name;
      settings.credentials.password = "pass";
      return settings;
    };
    auto a = co_await start_member(user("abc"), cluster_terms("a", "abc"));
    auto b = co_await start_member(user("abc"), cluster_terms("b", "abc"));
    auto other = co_await start_member(user("xyz"), cluster_terms("a", "xyz"));
    REQUIRE(a->cluster->report("n1", report_of(5)));
    a->cluster->redirect("n1", "s0", "1.1.1.1");
    REQUIRE(other->cluster->report("n2", report_of(1)));
    co_await eventually_equal(*a->cluster, *b->cluster);
    CHECK(b->cluster->nodes().size() == 1);
    auto written = [](Cluster& c) { return c.waiting_changes() == 0; };
    co_await eventually(20s, "all is written", written, *other->cluster);
    CHECK(other->cluster->nodes().size() == 1);
    CHECK(!other->cluster->node("n1"));
    CHECK(!a->cluster->node("n2"));
    for (auto* member : {a.get(), b.get(), other.get()}) co_await stop_member(*member);
    CHECK(s.cli({"ACL", "LOG"}).empty());  // nothing was even tried
  };
  run(body(server));
}

TEST_CASE("values of strangers that nobody can read are skipped, and do no harm") {
  RedisServer server;
  server.cli({"SET", "{abc}:nodes:broken", "{"});
  server.cli({"SET", "{abc}:nodes:liar", R"({"node_id":"another"})"});
  server.cli({"SET", "{abc}:artifacts:n1", R"([{"node_id":"n1","clip_hash":"x"}])"});
  server.cli({"SET", "{abc}:stream_instances:a:b:c",
              R"({"internal_name":"a:b","node_id":"c","state":{"inputs":1}})"});
  server.cli({"SET", "{abc}:nodes:c", R"({"node_id":"c","base_url":"u","add_bandwidth":9e9})"});
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        CHECK(a.nodes().size() == 1);
        CHECK(a.stream("a:b")->instances.size() == 1);  // an id with a colon, from inside
        CHECK(balance::holders(a.table_here(), "a:b").size() == 1);
        auto place = *balance::place_of(a.table_here(), "c");
        CHECK(balance::penalty_at(a.table_here(), place).bandwidth == 0);
        // An older peer says that it wrote something.
        s.cli({"SET", "{abc}:nodes:old", R"({"node_id":"old","base_url":"u","is_healthy":true,
               "is_stale":false,"last_heartbeat":"2026-01-01T00:00:00Z"})"});
        s.cli({"PUBLISH", "foghorn:{abc}:state_updates", R"({"type":"node","id":"old"})"});
        auto heard = [](Cluster& c) { return c.node("old").has_value(); };
        co_await eventually(20s, "it is heard", heard, a);
        CHECK(a.node("old")->is_active);  // it has just come, whatever its writer's clock says
        s.cli({"DEL", "{abc}:stream_instances:a:b:c"});
        s.cli({"PUBLISH", "foghorn:{abc}:state_updates",
               R"({"type":"stream_instance","id":"a:b:c"})"});
        auto gone = [](Cluster& c) { return !c.stream("a:b"); };
        co_await eventually(20s, "it is gone", gone, a);
      },
      server);
}

TEST_CASE("a node that is first heard of lives, whatever the clock of whoever wrote it says") {
  RedisServer server;
  auto value = [](const std::string& id, Clock::duration ago) {
    return fmt::format(R"({{"node_id":"{}","base_url":"u","is_healthy":true,"is_stale":false,)"
                       R"("last_heartbeat":"{}"}})",
                       id, iso8601(WallClock::now() - ago));
  };
  // What was written before this process began has nothing but its stamp.
  server.cli({"SET", "{abc}:nodes:dead", value("dead", 1h)});
  server.cli({"SET", "{abc}:nodes:alive", value("alive", 1s)});
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s, decltype(value)& write) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        CHECK(!a.node("dead")->is_active);
        CHECK(a.node("alive")->is_active);
        auto tell = [&s](const std::string& id, const std::string& said) {
          s.cli({"SET", "{abc}:nodes:" + id, said});
          s.cli({"PUBLISH", "foghorn:{abc}:state_updates",
                 fmt::format(R"({{"type":"node","id":"{}"}})", id)});
        };
        auto heard = [](Cluster& c, std::string& id) { return c.node(id).has_value(); };
        std::string behind = "behind", never = "never";
        tell(behind, write(behind, 1h));
        co_await eventually(20s, "it is heard", heard, a, behind);
        CHECK(a.node(behind)->is_active);
        // One that never showed life does not by being written down.
        tell(never, R"({"node_id":"never","base_url":"u","is_healthy":true,"is_stale":false})");
        co_await eventually(20s, "that is heard", heard, a, never);
        CHECK(!a.node(never)->is_active);
      },
      server, value);
}

TEST_CASE("what identifies survives a value that lost it, here and in Redis") {
  RedisServer server;
  with_clusters(
      {settings_for(server), settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto& b = *all[1]->cluster;
        auto report = report_of(1);
        report.tenant_id = "t1";
        REQUIRE(a.report("n1", report));
        REQUIRE(a.stream_buffer("n1", "s0", "FULL", "t1", "p1", ""));
        co_await eventually_equal(a, b);
        s.cli(
            {"SET", "{abc}:streams:s0", R"({"internal_name":"s0","status":"live","viewers":999})"});
        s.cli({"SET", "{abc}:nodes:n1", R"({"node_id":"n1","base_url":"new","is_healthy":true,
               "is_stale":false,"last_heartbeat":"2026-01-01T00:00:00Z"})"});
        s.cli({"PUBLISH", "foghorn:{abc}:state_updates", R"({"type":"stream","id":"s0"})"});
        s.cli({"PUBLISH", "foghorn:{abc}:state_updates", R"({"type":"node","id":"n1"})"});
        auto restored = [](RedisServer& r) {
          auto stream = parse_stream(r.cli({"GET", "{abc}:streams:s0"}));
          auto node = parse_node(r.cli({"GET", "{abc}:nodes:n1"}));
          return stream && stream->tenant_id == "t1" && stream->playback_id == "p1" &&
                 stream->node_id == "n1" && node && node->tenant_id == "t1" &&
                 node->base_url == "new";
        };
        co_await eventually(20s, "it is restored", restored, s);
        co_await eventually_equal(a, b);
        CHECK(b.stream("s0")->state.playback_id == "p1");
        CHECK(b.stream("s0")->state.viewers == 9);  // the sum, not what somebody wrote
        CHECK(a.node("n1")->state.base_url == "new");
      },
      server);
}

TEST_CASE("an operator's mode at one instance is not undone by reports to another") {
  RedisServer server;
  with_clusters({settings_for(server), settings_for(server)}, [](Members& all) -> awaitable<void> {
    auto& a = *all[0]->cluster;
    auto& b = *all[1]->cluster;
    auto report = report_of(0);
    report.operational_mode = "normal";
    REQUIRE(a.report("n1", report));
    co_await eventually_equal(a, b);
    REQUIRE(b.set_mode("n1", balance::NodeMode::draining, "ann"));
    report.cpu_tenths = 420;
    REQUIRE(a.report("n1", report));  // it has not heard of the mode
    co_await eventually_equal(a, b);
    for (auto* each : {&a, &b}) {
      CHECK(each->node("n1")->mode == balance::NodeMode::draining);
      CHECK(each->node("n1")->state.cpu == 42);
    }
  });
}

TEST_CASE("who was sent by one instance and arrives at another is not expected any more") {
  RedisServer server;
  with_clusters({settings_for(server), settings_for(server)}, [](Members& all) -> awaitable<void> {
    auto& a = *all[0]->cluster;
    auto& b = *all[1]->cluster;
    REQUIRE(a.report("n1", report_of(1)));
    co_await eventually_equal(a, b);
    auto id = b.redirect("n1", "s0", "1.1.1.1");
    CHECK(b.viewers().pending("n1") == 1);
    ViewerContact contact{id, "session", "1.1.1.1"};
    REQUIRE(a.viewer_connected("n1", "s0", contact));  // the node reports to a
    auto is_settled = [](Cluster& c) { return c.viewers().pending("n1") == 0; };
    co_await eventually(10s, "b has heard of it", is_settled, b);
    CHECK(b.viewers().pending_bandwidth("n1") == 0);
  });
}

TEST_CASE("redirects of one instance burden the node at the others, until they are settled") {
  RedisServer server;
  with_clusters(
      {settings_for(server), settings_for(server), settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        REQUIRE(a.report("n1", report_of(0)));
        for (std::size_t i = 1; i < 3; ++i) co_await eventually_equal(a, *all[i]->cluster);
        auto peers = [](Cluster& c) {
          auto place = *balance::place_of(c.table_here(), "n1");
          return balance::penalty_at(c.table_here(), place).peer_bandwidth.load();
        };
        auto one = a.viewer_cost("n1");
        auto id = a.redirect("n1", "s", "1.1.1.1");
        all[1]->cluster->redirect("n1", "s", "1.1.1.1");
        auto sum_is = [](decltype(peers)& read, Cluster& c, std::uint64_t& sum) {
          return read(c) == sum;
        };
        auto two = 2 * one;
        std::uint64_t none = 0;
        co_await eventually(20s, "c has both", sum_is, peers, *all[2]->cluster, two);
        co_await eventually(20s, "a has that of b", sum_is, peers, a, one);
        REQUIRE(a.viewer_connected("n1", "s", {id, "", ""}));
        REQUIRE(a.report("n1", report_of(0)));
        co_await eventually(20s, "b has none", sum_is, peers, *all[1]->cluster, none);
        auto is_gone = [](RedisServer& r) { return r.cli({"EXISTS", "{abc}:penalties:a"}) == "0"; };
        co_await eventually(20s, "nothing is left of a", is_gone, s);
        co_await stop_member(*all[1]);
        all.erase(all.begin() + 1);
        co_await eventually(20s, "a leaver takes its own", sum_is, peers, *all[1]->cluster, none);
      },
      server);
}

TEST_CASE("the leader removes what is dead, and nothing that is alive") {
  RedisServer server;
  server.cli({"SET", "{abc}:penalties:dead",
              R"({"instance_id":"dead","at":"2026-01-01T00:00:00Z","nodes":{"n1":5}})"});
  server.cli({"SET", "{abc}:stream_instances:s:lost",
              R"({"internal_name":"s","node_id":"lost","state":{"inputs":1}})"});
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        Cluster::Core leader(co_await asio::this_coro::executor, all[0]->client.get(),
                             cluster_terms("leader"));
        auto started = co_await leader.start(Clock::now() + 20s);
        REQUIRE(started);
        for (auto node : {"n1", "n2"}) REQUIRE(a.report(node, report_of(2)));
        REQUIRE(a.add_artifact("n2", {"c", "clip", "/c", 1}));
        REQUIRE(a.set_mode("n2", balance::NodeMode::draining, "ann"));
        REQUIRE(a.disconnect("n2"));
        a.redirect("n1", "s0", "1.1.1.1");
        auto knows = [](Cluster::Core& c) {
          return c.model.node("n2") && c.model.node("n2")->is_stale() && c.model.artifact("c");
        };
        co_await eventually(20s, "the leader knows", knows, leader);
        leader.viewers.redirect(Clock::now(), "n1", "s0", "1.1.1.1", 5);
        auto shares = [](RedisServer& r) {
          return r.cli({"EXISTS", "{abc}:penalties:leader"}) == "1";
        };
        co_await eventually(20s, "the leader has a penalty of its own", shares, s);
        leader.sweep(Clock::now() + 4min);
        CHECK(leader.model.node("n2"));
        leader.sweep(Clock::now() + 6min);
        auto swept = [](Cluster& c) {
          return !c.node("n2") && !c.artifact("c") && !c.stream("s") &&
                 c.stream("s0")->instances.size() == 1;
        };
        co_await eventually(20s, "all know", swept, a);
        CHECK(a.node("n1")->is_active);
        auto gone = [](RedisServer& r) {
          return r.cli({"EXISTS", "{abc}:penalties:dead", "{abc}:nodes:n2", "{abc}:artifacts:c",
                        "{abc}:stream_instances:s:lost"}) == "0";
        };
        co_await eventually(20s, "Redis has none of it", gone, s);
        CHECK(s.cli({"EXISTS", "{abc}:nodes:n1", "{abc}:node_mode:n2"}) == "2");
        co_await leader.close();
      },
      server);
}

TEST_CASE("a leader that is cut off removes nobody: it does not know who is alive") {
  RedisServer server;
  FaultyLink link(server.port());
  with_clusters(
      {settings_for(server), settings_for(link.port())},
      [](Members& all, FaultyLink& l) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        Cluster::Core leader(co_await asio::this_coro::executor, all[1]->client.get(),
                             cluster_terms("leader"));
        auto started = co_await leader.start(Clock::now() + 20s);
        REQUIRE(started);
        REQUIRE(a.report("n1", report_of(1)));
        REQUIRE(a.disconnect("n1"));
        auto is_silent = [](Cluster::Core& c) {
          return c.model.node("n1") && c.model.node("n1")->is_stale();
        };
        co_await eventually(20s, "the leader knows that it went", is_silent, leader);
        l.cut();
        REQUIRE(a.report("n1", report_of(1)));  // it is back
        auto is_deaf = [](Cluster::Core& c) {
          return c.mirror->health() == MirrorHealth::degraded;
        };
        co_await eventually(20s, "the leader hears nothing", is_deaf, leader);
        leader.sweep(Clock::now() + 6min);
        CHECK(leader.model.node("n1"));
        l.heal();
        auto is_back = [](Cluster::Core& c) {
          return c.model.node("n1") && !c.model.node("n1")->is_stale();
        };
        co_await eventually(20s, "the leader knows that it is back", is_back, leader);
        CHECK(a.node("n1")->is_active);
        co_await leader.close();
      },
      link);
}

TEST_CASE("a node that moves to another instance belongs to that one, with its artifacts") {
  RedisServer server;
  with_clusters({settings_for(server), settings_for(server)}, [](Members& all) -> awaitable<void> {
    auto& a = *all[0]->cluster;
    auto& b = *all[1]->cluster;
    auto report = report_of(1);
    report.artifacts.emplace() = {{"c1", "clip", "/c1", 1}, {"c2", "clip", "/c2", 1}};
    REQUIRE(a.report("n1", report));
    auto other = report_of(1);
    other.artifacts = report.artifacts;
    REQUIRE(b.report("n2", other));  // at the same time, of the same content
    co_await eventually_equal(a, b);
    CHECK(a.artifact("c1")->copies.size() == 2);
    CHECK(a.stream("s0")->instances.size() == 2);
    report.artifacts->pop_back();
    REQUIRE(b.report("n1", report));
    co_await eventually_equal(a, b);
    CHECK(a.artifact("c2")->copies.size() == 1);
    CHECK(a.artifact("c1")->copies.size() == 2);
  });
}

TEST_CASE("what the instance that a node has left writes, late, changes nothing") {
  RedisServer server;
  with_clusters(
      {settings_for(server), settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto& b = *all[1]->cluster;
        REQUIRE(a.report("n1", report_of(1)));
        co_await eventually_equal(a, b);
        auto old_node = s.cli({"GET", "{abc}:nodes:n1"});
        auto old_stream = s.cli({"GET", "{abc}:stream_instances:s0:n1"});
        auto report = report_of(1, 500);
        (*report.streams)["s0"].total = 77;
        REQUIRE(b.report("n1", report));
        co_await eventually_equal(a, b);
        REQUIRE(a.connection_lost("n1"));  // the one that it had before
        REQUIRE(b.disconnect("n1"));       // and it is really gone
        co_await eventually_equal(a, b);
        s.cli({"SET", "{abc}:nodes:n1", old_node});
        s.cli({"SET", "{abc}:stream_instances:s0:n1", old_stream});
        s.cli({"PUBLISH", "foghorn:{abc}:state_updates", R"({"type":"node","id":"n1"})"});
        s.cli({"PUBLISH", "foghorn:{abc}:state_updates",
               R"({"type":"stream_instance","id":"s0:n1"})"});
        auto restored = [](RedisServer& r, std::string& old) {
          auto instance = parse_instance(r.cli({"GET", "{abc}:stream_instances:s0:n1"}));
          return r.cli({"GET", "{abc}:nodes:n1"}) != old && instance &&
                 instance->total_connections == 77;
        };
        co_await eventually(20s, "it is written again", restored, s, old_node);
        co_await eventually_equal(a, b);
        CHECK(!a.node("n1")->is_active);
        CHECK(a.node("n1")->state.cpu == 50);
      },
      server);
}

TEST_CASE("what an instance that was cut off heard first does not undo what its node said since") {
  RedisServer server;
  FaultyLink link(server.port());
  with_clusters(
      {settings_for(link.port()), settings_for(server)},
      [](Members& all, FaultyLink& l) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto& b = *all[1]->cluster;
        l.cut();
        auto before = report_of(2);
        before.base_url = "https://old.example";
        REQUIRE(a.report("n1", before));  // Redis does not get this take-over
        auto since = report_of(1);        // and s1 is over
        since.base_url = "https://new.example";
        REQUIRE(b.report("n1", since));
        REQUIRE(b.stream_buffer("n1", "s0", "DRY", "", "", ""));
        auto written = [](Cluster& c) { return c.waiting_changes() == 0; };
        co_await eventually(20s, "b has written", written, b);
        l.heal();
        co_await eventually_equal(a, b);
        for (auto* each : {&a, &b}) {
          CHECK(each->node("n1")->state.base_url == "https://new.example");
          CHECK(each->instances_on("n1").size() == 1);
          CHECK(each->stream("s0")->state.buffer_state == "DRY");
          auto over = each->stream("s1");
          CHECK((!over || over->state.status == "offline"));
        }
        // And the instance that it has turned to still has it.
        REQUIRE(a.connection_lost("n1"));
        co_await eventually_equal(a, b);
        CHECK(b.node("n1")->is_active);
      },
      link);
}

TEST_CASE(
    "what a node said last counts, also to an instance that was cut off and never heard of it") {
  RedisServer server;
  FaultyLink link(server.port());
  with_clusters(
      {settings_for(link.port()), settings_for(server), settings_for(server)},
      [](Members& all, FaultyLink& l) -> awaitable<void> {
        auto& last = *all[0]->cluster;
        auto& a = *all[1]->cluster;
        auto& b = *all[2]->cluster;
        l.cut();
        auto before = report_of(2);
        before.base_url = "https://old.example";
        for (auto* each : {&a, &b, &a}) {  // it turns from one to the other, and they know
          REQUIRE(each->report("n1", before));
          co_await eventually_equal(a, b);
        }
        auto since = report_of(1);  // s1 is over
        since.base_url = "https://new.example";
        REQUIRE(last.report("n1", since));
        l.heal();
        co_await eventually_equal(last, a);
        co_await eventually_equal(a, b);
        for (auto* each : {&last, &a, &b}) {
          CHECK(each->node("n1")->state.base_url == "https://new.example");
          CHECK(each->instances_on("n1").size() == 1);
        }
      },
      link);
}

TEST_CASE("who loads finds that a node has left it since, also when nobody is there to say so") {
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto late = co_await make_member(settings_for(s), cluster_terms("late"));
        auto& l = *late->cluster;
        auto before = report_of(2);
        before.base_url = "https://old.example";
        REQUIRE(l.report("n1", before));
        auto since = report_of(1);  // s1 is over
        since.base_url = "https://new.example";
        REQUIRE(all[0]->cluster->report("n1", since));
        auto written = [](Cluster& c) { return c.waiting_changes() == 0; };
        co_await eventually(20s, "it is written", written, *all[0]->cluster);
        co_await stop_member(*all[0]);
        all.clear();
        auto started = co_await l.start(Clock::now() + 20s);
        REQUIRE(started);
        co_await eventually(20s, "it is written", written, l);
        CHECK(l.node("n1")->state.base_url == "https://new.example");
        CHECK(l.instances_on("n1").size() == 1);
        CHECK(l.stream("s1")->state.status == "offline");
        auto stored = parse_node(s.cli({"GET", std::string(node_key)}));
        REQUIRE(stored);
        CHECK(stored->base_url == "https://new.example");
        CHECK(s.cli({"EXISTS", "{abc}:stream_instances:s1:n1"}) == "0");
        co_await stop_member(*late);
      },
      server);
}

TEST_CASE("what is said again with another time has that time everywhere") {
  RedisServer server;
  with_clusters(
      {settings_for(server), settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto& b = *all[1]->cluster;
        REQUIRE(a.report("n1", report_of(1)));
        co_await eventually_equal(a, b);
        auto value = s.cli({"GET", "{abc}:stream_instances:s0:n1"});
        auto year = value.find("\"last_update\":\"");
        REQUIRE(year != value.npos);
        value.replace(year + 15, 4, "2025");
        s.cli({"SET", "{abc}:stream_instances:s0:n1", value});
        s.cli({"PUBLISH", "foghorn:{abc}:state_updates",
               R"({"type":"stream_instance","id":"s0:n1"})"});
        s.cli({"SET", "{abc}:nodes:next", R"({"node_id":"next","base_url":"u"})"});
        s.cli({"PUBLISH", "foghorn:{abc}:state_updates", R"({"type":"node","id":"next"})"});
        auto are_told = [](Cluster& x, Cluster& y) { return x.node("next") && y.node("next"); };
        co_await eventually(20s, "both have come so far", are_told, a, b);
        co_await eventually_equal(a, b);
        CHECK(s.cli({"GET", "{abc}:stream_instances:s0:n1"}) == value);
      },
      server);
}

TEST_CASE("what nodes say before all is loaded counts at once, and is merged with what Redis has") {
  RedisServer server;
  with_clusters(
      {settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto full = report_of(3);
        full.tenant_id = "t1";
        full.artifacts.emplace() = {{"c1", "clip", "/c1", 1}};
        (*full.streams)["s0"].playback_id = "p0";
        for (auto node : {"n1", "n2"}) REQUIRE(a.report(node, full));
        REQUIRE(a.stream_buffer("n1", "s0", "FULL", "t1", "", R"({"v":{"codec":"H264"}})"));
        REQUIRE(a.set_mode("n2", balance::NodeMode::draining, "ann"));
        auto written = [](Cluster& c) { return c.waiting_changes() == 0; };
        co_await eventually(20s, "Redis has it", written, a);

        auto early = co_await make_member(settings_for(s), cluster_terms("early"));
        auto& e = *early->cluster;
        NodeReport part;  // what is left out stays as Redis has it
        part.cpu_tenths = 777;
        part.streams.emplace()["s0"].inputs = 1;
        part.streams->at("s0").total = 55;
        (*part.streams)["s7"].inputs = 1;
        REQUIRE(e.report("n1", part));
        auto whole = report_of(0);
        (*whole.streams)["s9"].inputs = 1;
        REQUIRE(e.report("n3", whole));
        REQUIRE(e.add_artifact("n3", {"c1", "clip", "/c1", 1}));
        REQUIRE(e.report("n4", whole));
        REQUIRE(e.heartbeat("n2"));
        // It is used for answers.
        balance::Query query;
        query.stream = "s9";
        CHECK(!balance::choose(e.table_here(), query).empty());
        CHECK(e.health() == MirrorHealth::loading);
        // One that has turned to another instance since.
        auto later = report_of(0, 300);
        REQUIRE(a.report("n4", later));
        co_await eventually(20s, "Redis has it", written, a);

        auto started = co_await e.start(Clock::now() + 20s);
        REQUIRE(started);
        co_await eventually_equal(a, e);
        for (auto* each : {&a, &e}) {
          auto n1 = each->node("n1");
          REQUIRE(n1);
          CHECK(n1->state.cpu == 77.7);
          CHECK(n1->state.base_url == "https://edge.example");
          CHECK(n1->state.tenant_id == "t1");
          CHECK(n1->state.bw_limit == 1e9);
          CHECK(n1->streams == 2);
          CHECK(each->node("n2")->mode == balance::NodeMode::draining);
          CHECK(each->node("n2")->state.base_url == "https://edge.example");
          CHECK(each->node("n3")->streams == 1);
          CHECK(each->node("n4")->state.cpu == 30);
          CHECK(each->node("n4")->streams == 0);
          auto s0 = each->stream("s0");
          CHECK(s0->state.playback_id == "p0");
          CHECK(s0->state.tracks.size() == 1);
          CHECK(s0->state.total_connections == 65);
          CHECK(each->stream("s1")->instances.size() == 1);  // n1 has dropped it
          CHECK(each->artifact("c1")->copies.size() == 3);
        }
        auto stored = parse_node(s.cli({"GET", std::string(node_key)}));
        REQUIRE(stored);
        CHECK(stored->cpu == 77.7);
        CHECK(stored->base_url == "https://edge.example");
        co_await stop_member(*early);
      },
      server);
}

TEST_CASE("a stream that both let go goes offline") {
  RedisServer server;
  with_clusters(
      {settings_for(server), settings_for(server)},
      [](Members& all, RedisServer&) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto& b = *all[1]->cluster;
        REQUIRE(a.report("n1", report_of(1)));
        REQUIRE(b.report("n2", report_of(1)));
        co_await eventually_equal(a, b);
        REQUIRE(a.report("n1", report_of(0)));  // each counts on the other
        REQUIRE(b.report("n2", report_of(0)));
        co_await eventually_equal(a, b);
        auto is_swept = [](Cluster& leader) {
          leader.sweep();
          return leader.stream("s0")->state.status == "offline";
        };
        co_await eventually(30s, "nobody carries it", is_swept, a);
        co_await eventually_equal(a, b);
        CHECK(b.stream("s0")->state.status == "offline");
      },
      server);
}

TEST_CASE("a node that is alive here comes back when somebody who had not heard of it deletes it") {
  RedisServer server;
  with_clusters(
      {settings_for(server), settings_for(server)},
      [](Members& all, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto& b = *all[1]->cluster;
        REQUIRE(a.report("n1", report_of(3)));
        co_await eventually_equal(a, b);
        REQUIRE(b.forget_node("n1"));
        auto is_back = [](Cluster& c, Cluster& d) {
          return c.node("n1") && d.node("n1") && d.node("n1")->streams == 3 &&
                 c.waiting_changes() + d.waiting_changes() == 0;
        };
        co_await eventually(20s, "it is back", is_back, a, b);
        co_await eventually_equal(a, b);
        CHECK(s.cli({"EXISTS", "{abc}:nodes:n1", "{abc}:stream_instances:s2:n1"}) == "2");
        // One that is not, stays deleted.
        REQUIRE(a.disconnect("n1"));
        co_await eventually_equal(a, b);
        REQUIRE(b.forget_node("n1"));
        co_await eventually_equal(a, b);
        CHECK(!a.node("n1"));
      },
      server);
}

namespace {

// A node that can serve, with these streams.
NodeReport report_with(std::vector<std::string> streams) {
  auto report = report_of(0);
  for (const auto& name : streams) {
    auto& stream = (*report.streams)[name];
    stream.inputs = 1, stream.total = 10, stream.tenant_id = "t1";
  }
  return report;
}

enum class Loss { flushed, restarted };
void lose_all(RedisServer& server, Loss how) {
  if (how == Loss::flushed) {
    server.cli({"FLUSHALL"});
  } else {
    server.kill();
    server.restart();
  }
}

// It has noticed the loss, read everything again, and written what its own node said.
awaitable<void> eventually_written(Cluster::Core& core, RedisServer& server, std::string node) {
  auto fact = [](Cluster::Core& c, RedisServer& s, std::string& n) {
    return s.cli({"EXISTS", "{abc}:nodes:" + n}) == "1" && c.journal.waiting() == 0 &&
           c.mirror->health() == MirrorHealth::current;
  };
  co_await eventually(30s, "what is said here is in Redis again", fact, core, server, node);
}

// An instance beside the member, which shows what it has and takes any time for the present.
struct Witness {
  Witness(asio::any_io_executor executor, redis::Client* client)
      : core(std::move(executor), client, terms()) {}
  static ClusterTerms terms() {
    auto all = cluster_terms("witness");
    all.restore_time = 1h;
    return all;
  }
  bool is_active(std::string_view node) const {
    const auto* record = core.model.node(node);
    return record && record->is_active();
  }
  bool has(std::string_view stream, std::string_view node) const {
    return core.model.instance(stream, node) != nullptr;
  }
  void look(Clock::duration later) {
    core.look_for_silence(Clock::now() + later);
    core.end_kept(Clock::now() + later);
  }
  Cluster::Core core;
};

// The member is behind a link, so that it need not hear or write anything when Redis loses all.
template <class Body>
void with_witness(Body body) {
  RedisServer server;
  FaultyLink link(server.port());
  with_clusters(
      {settings_for(link.port()), settings_for(server)},
      [](Members& all, FaultyLink& l, RedisServer& s, Body& b) -> awaitable<void> {
        Witness witness(co_await asio::this_coro::executor, all[1]->client.get());
        auto started = co_await witness.core.start(Clock::now() + 20s);
        std::exception_ptr thrown;
        try {
          REQUIRE(started);
          co_await b(*all[0]->cluster, witness, l, s);
        } catch (...) {
          thrown = std::current_exception();
        }
        co_await witness.core.close();
        if (thrown) std::rethrow_exception(thrown);
      },
      link, server, body);
}

awaitable<void> eventually_known(Witness& witness, std::string node, std::string stream) {
  auto fact = [](Witness& w, std::string& n, std::string& s) {
    return w.is_active(n) && w.has(s, n) && w.core.journal.waiting() == 0;
  };
  co_await eventually(20s, "the witness knows the node", fact, witness, node, stream);
}

}  // namespace

TEST_CASE(
    "what Redis lost of others is known until they write it again, and like theirs after that") {
  static Loss how;
  SUBCASE("by FLUSHALL") { how = Loss::flushed; }
  SUBCASE("by a restart without data") { how = Loss::restarted; }
  RedisServer server;
  FaultyLink link(server.port());
  with_clusters(
      {settings_for(link.port()), settings_for(server)},
      [](Members& all, FaultyLink& l, RedisServer& s) -> awaitable<void> {
        auto& a = *all[0]->cluster;
        auto& b = *all[1]->cluster;
        REQUIRE(a.report("n1", report_with({"s1", "s2"})));
        REQUIRE(a.add_artifact("n1", {"c1", "clip", "/c1", 1}));
        REQUIRE(b.report("n2", report_with({"s3"})));
        co_await eventually_equal(a, b);
        l.cut();
        lose_all(s, how);
        auto is_told = [](Cluster& c, RedisServer& r) {
          return r.cli({"EXISTS", "{abc}:nodes:n2", "{abc}:stream_instances:s3:n2"}) == "2" &&
                 c.waiting_changes() == 0 && c.health() == MirrorHealth::current;
        };
        co_await eventually(30s, "b has written its own node again", is_told, b, s);
        CHECK(s.cli({"EXISTS", "{abc}:nodes:n1", "{abc}:artifacts:c1"}) == "0");
        REQUIRE(b.node("n1"));
        CHECK(b.node("n1")->is_active);
        CHECK(balance::holders(b.table_here(), "s1").size() == 1);
        CHECK(b.artifact("c1"));
        CHECK(b.artifact("c1")->copies.size() == 1);

        l.heal();
        auto is_back = [](RedisServer& r) {
          return r.cli({"EXISTS", "{abc}:nodes:n1", "{abc}:stream_instances:s1:n1",
                        "{abc}:artifacts:c1"}) == "3";
        };
        co_await eventually(30s, "a has written its own node again", is_back, s);
        co_await eventually_equal(a, b);
        CHECK(b.node("n1")->streams == 2);
        // From here on a deletion is one at once.
        REQUIRE(a.report("n1", report_with({"s2"})));
        REQUIRE(a.remove_artifact("n1", "c1"));
        co_await eventually_equal(a, b);
        CHECK(balance::holders(b.table_here(), "s1").size() == 0);
        CHECK(!b.artifact("c1"));
      },
      link, server);
}

TEST_CASE("a node that nobody writes again after Redis lost it ends by its silence") {
  static Loss how;
  SUBCASE("by FLUSHALL") { how = Loss::flushed; }
  SUBCASE("by a restart without data") { how = Loss::restarted; }
  with_witness([](Cluster& a, Witness& w, FaultyLink& l, RedisServer& s) -> awaitable<void> {
    REQUIRE(a.report("n1", report_with({"s1", "s4"})));
    REQUIRE(a.report("n2", report_with({"s2"})));
    REQUIRE(a.add_artifact("n1", {"c1", "clip", "/c1", 1}));
    co_await eventually_known(w, "n1", "s1");
    co_await eventually_known(w, "n2", "s2");
    w.core.put_own(w.core.heard("n3"));
    co_await eventually_written(w.core, s, "n3");
    l.cut();  // from here on a is as good as dead
    lose_all(s, how);
    co_await eventually_written(w.core, s, "n3");
    CHECK(s.cli({"EXISTS", "{abc}:nodes:n1"}) == "0");
    w.look(61s);
    CHECK(w.is_active("n1"));
    CHECK(w.has("s1", "n1"));
    // One of the two has found another instance: that writes what is known of it. A stream that it
    // carries, too, it writes also when it has nothing new to say of it.
    w.core.put_own(w.core.heard("n2"));
    StreamReport copy;
    copy.inputs = 1, copy.total = 10, copy.replicated = true;
    w.core.take_stats("n3", "s4", copy);
    co_await eventually_written(w.core, s, "n2");
    CHECK(s.cli({"EXISTS", "{abc}:streams:s2", "{abc}:stream_instances:s2:n2"}) == "2");
    CHECK(s.cli({"EXISTS", "{abc}:streams:s4", "{abc}:stream_instances:s4:n3"}) == "2");
    w.look(91s);
    CHECK(!w.is_active("n1"));
    w.look(2h);
    CHECK(!w.core.model.node("n1"));
    CHECK(!w.has("s1", "n1"));
    CHECK(!w.core.model.stream("s1"));
    CHECK(!w.core.model.artifact("c1"));
    CHECK(!w.has("s4", "n1"));
    CHECK(w.core.model.stream("s4")->is_known);
    CHECK(w.core.model.node("n2"));
    CHECK(w.has("s2", "n2"));
    CHECK(w.core.model.stream("s2"));
  });
}

TEST_CASE(
    "what was deleted while Redis lost everything ends later, and what is written again stays") {
  with_witness([](Cluster& a, Witness& w, FaultyLink& l, RedisServer& s) -> awaitable<void> {
    REQUIRE(a.report("n1", report_with({"s1"})));
    REQUIRE(a.report("n2", report_with({"s2", "s3"})));
    co_await eventually_known(w, "n1", "s1");
    co_await eventually_known(w, "n2", "s3");
    w.core.put_own(w.core.heard("n3"));
    co_await eventually_written(w.core, s, "n3");
    l.cut();  // Redis is empty before it hears of either
    REQUIRE(a.forget_node("n1"));
    REQUIRE(a.report("n2", report_with({"s2"})));
    s.cli({"FLUSHALL"});
    co_await eventually_written(w.core, s, "n3");
    l.heal();
    auto is_back = [](Cluster& c, RedisServer& r) {
      return r.cli({"EXISTS", "{abc}:nodes:n2", "{abc}:stream_instances:s2:n2"}) == "2" &&
             c.waiting_changes() == 0;
    };
    co_await eventually(30s, "a has written its own node again", is_back, a, s);
    co_await eventually_written(w.core, s, "n3");
    CHECK(w.has("s3", "n2"));
    CHECK(w.is_active("n1"));
    // Nobody is silent, and there was time to write everything again.
    w.core.end_kept(Clock::now() + 2h);
    CHECK(!w.has("s3", "n2"));
    CHECK(w.has("s2", "n2"));
    CHECK(w.is_active("n1"));
    CHECK(w.is_active("n2"));
    w.look(2h);
    w.core.end_kept(Clock::now() + 4h);
    CHECK(!w.core.model.node("n1"));
    CHECK(!w.has("s1", "n1"));
    CHECK(w.core.model.node("n2"));  // silent too, but in Redis: the leader removes it
  });
}

namespace {

// Something that a node or an operator might say, to any of the instances.
void say_something(std::mt19937& random, Cluster& cluster) {
  auto pick = [&random](std::string_view of, unsigned count) {
    return fmt::format("{}{}", of, random() % count);
  };
  auto node = pick("n", 6), stream = pick("s", 12);
  auto ignore = [](const Result<>&) {};  // of what is not there
  switch (random() % 14) {
    case 0:
    case 1:
    case 2: {
      auto report = report_of(0, static_cast<double>(random() % 1001));
      for (auto count = random() % 6; count > 0; --count) {
        auto& each = (*report.streams)[pick("s", 12)];
        each.inputs = random() % 2, each.total = random() % 100, each.replicated = random() % 2;
      }
      if (random() % 2) report.artifacts = {{pick("c", 8), "clip", "/x", random() % 9}};
      REQUIRE(cluster.report(node, report));
      return;
    }
    case 3:
      return ignore(cluster.heartbeat(node, random() % 4 > 0));
    case 4:
      return ignore(cluster.disconnect(node));
    case 5:
      return ignore(cluster.set_mode(
          node, random() % 2 ? balance::NodeMode::draining : balance::NodeMode::normal, "ann"));
    case 6:
      return ignore(cluster.stream_buffer(node, stream, "FULL", pick("t", 2), stream,
                                          R"({"v":{"codec":"H264","kbits":0.1}})"));
    case 7:
      return ignore(cluster.stream_offline(node, stream));
    case 8:
      return ignore(cluster.stream_progress(node, stream, {{"dvr_size", random() / 7.0}}));
    case 9:
      return ignore(cluster.viewer_connected(node, stream, {}));
    case 10:
      return ignore(cluster.add_artifact(node, {pick("c", 8), "vod", "/y", 1}));
    case 11:
      return ignore(cluster.remove_artifact(node, pick("c", 8)));
    case 12:
      return random() % 4 ? void() : ignore(cluster.forget_node(node));
    default:
      return random() % 4 ? void() : ignore(cluster.forget_stream(stream));
  }
}

}  // namespace

TEST_CASE(
    "whatever is said to whom, and in which order, all end with the same, and so does Redis") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    RedisServer server;
    std::mt19937 random(seed);
    with_clusters(
        {settings_for(server), settings_for(server)},
        [](Members& all, RedisServer& s, std::mt19937& r) -> awaitable<void> {
          for (int i = 0; i < 1500; ++i) {
            say_something(r, *all[r() % 2]->cluster);
            if (r() % 20 == 0) co_await sleep_for(1ms);
            if (r() % 300 == 0) s.cli({"CLIENT", "KILL", "TYPE", "normal"});
          }
          co_await eventually_equal(*all[0]->cluster, *all[1]->cluster);
          auto fresh = co_await start_member(settings_for(s), cluster_terms("fresh"));
          CHECK(fresh->cluster->digest() == all[0]->cluster->digest());
          CHECK(fresh->cluster->nodes().size() == all[0]->cluster->nodes().size());
          for (const auto& view : fresh->cluster->streams()) {
            auto same = all[0]->cluster->stream(view.state.internal_name);
            REQUIRE(same);
            CHECK(same->state.total_connections == view.state.total_connections);
            CHECK(balance::holders(fresh->cluster->table_here(), view.state.internal_name).size() ==
                  balance::holders(all[0]->cluster->table_here(), view.state.internal_name).size());
          }
          co_await stop_member(*fresh);
        },
        server, random);
  }
}
