// Messages, and the truth about those that were missed.
#include "proof/testkit/control.h"
#include "proof/testkit/faulty_link.h"
#include "redis/subscriber.h"
#include "with_client.h"

using namespace warren;
using namespace warren::redis;

namespace {

template <class Body, class... Args>
void with_subscriber(Settings settings, Subscriber::Limits limits, Body body, Args&... args) {
  auto session = [](Client& client, Subscriber::Limits& l, Body& b, Args&... a) -> awaitable<void> {
    Subscriber news(client, l);
    std::exception_ptr thrown;
    try {
      co_await b(client, news, a...);
    } catch (...) {
      thrown = std::current_exception();
    }
    co_await news.close();
    if (thrown) std::rethrow_exception(thrown);
  };
  with_client(std::move(settings), session, limits, body, args...);
}

awaitable<void> expect_message(Subscriber& news, std::string channel, std::string payload) {
  auto message = co_await news.next(Clock::now() + 20s);
  REQUIRE(message);
  REQUIRE(message->kind == Message::Kind::message);
  CHECK(message->channel == channel);
  CHECK(message->payload == payload);
}

awaitable<void> expect_gap(Subscriber& news) {
  auto message = co_await news.next(Clock::now() + 20s);
  REQUIRE(message);
  REQUIRE(message->kind == Message::Kind::gap);
}

}  // namespace

TEST_CASE("what is subscribed is heard in order, and what is not is not") {
  RedisServer server;
  with_subscriber(
      settings_for(server), {},
      [](Client&, Subscriber& news, RedisServer& s) -> awaitable<void> {
        news.subscribe("a");
        news.psubscribe("p.*");
        news.ssubscribe("shard");
        auto settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        s.cli({"PUBLISH", "a", "1"});
        s.cli({"PUBLISH", "b", "2"});
        s.cli({"PUBLISH", "p.x", "3"});
        s.cli({"SPUBLISH", "shard", "4"});
        co_await expect_message(news, "a", "1");
        auto matched = co_await news.next(Clock::now() + 20s);
        REQUIRE(matched);
        CHECK(matched->pattern == "p.*");
        CHECK(matched->channel == "p.x");
        CHECK(matched->payload == "3");
        co_await expect_message(news, "shard", "4");
        news.unsubscribe("a");
        news.subscribe("b");
        settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        CHECK(s.cli({"PUBLISH", "a", "5"}) == "0");
        s.cli({"PUBLISH", "b", "6"});
        co_await expect_message(news, "b", "6");
      },
      server);
}

TEST_CASE("after the server was away everything is subscribed again, and then a gap is told") {
  RedisServer server;
  with_subscriber(
      settings_for(server), {},
      [](Client&, Subscriber& news, RedisServer& s) -> awaitable<void> {
        for (int i = 0; i < 50; ++i) news.subscribe(fmt::format("c{}", i));
        auto settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        s.kill();
        s.restart();
        co_await expect_gap(news);
        // The gap comes when the subscriptions stand: whatever is published now is heard.
        for (int i = 0; i < 50; ++i) CHECK(s.cli({"PUBLISH", fmt::format("c{}", i), "x"}) == "1");
        for (int i = 0; i < 50; ++i) co_await expect_message(news, fmt::format("c{}", i), "x");
      },
      server);
}

TEST_CASE("a connection that dies silently is noticed, and what was missed is told as a gap") {
  RedisServer server;
  FaultyLink link(server.port());
  auto settings = settings_for(link.port());
  settings.ping_interval = 50ms;
  settings.silence_limit = 200ms;
  settings.connect_timeout = 300ms;
  with_subscriber(
      settings, {},
      [](Client&, Subscriber& news, RedisServer& s, FaultyLink& l) -> awaitable<void> {
        news.subscribe("a");
        auto settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        l.drop(Direction::to_client);
        s.cli({"PUBLISH", "a", "nobody hears this"});
        co_await eventually(
            20s, "the silence is noticed", [](FaultyLink& f) { return f.counters().accepted > 3; },
            l);
        l.heal();
        co_await expect_gap(news);
        s.cli({"PUBLISH", "a", "back"});
        co_await expect_message(news, "a", "back");
      },
      server, link);
}

TEST_CASE("when messages come faster than they are taken, they are dropped and a gap is told") {
  RedisServer server;
  with_subscriber(settings_for(server), Subscriber::Limits{.messages = 100, .bytes = 1 << 20},
                  [](Client& client, Subscriber& news) -> awaitable<void> {
                    news.subscribe("a");
                    auto settled = co_await news.settled(Clock::now() + 10s);
                    REQUIRE(settled);
                    std::vector<Command> burst;
                    for (int i = 0; i < 150; ++i) burst.emplace_back("PUBLISH", "a", i);
                    auto sent = co_await client.batch(std::move(burst));
                    for (auto& result : sent) REQUIRE(result);
                    int gaps = 0;
                    std::string last;
                    while (last != "149") {
                      auto message = co_await news.next(Clock::now() + 20s);
                      REQUIRE(message);
                      gaps += message->kind == Message::Kind::gap;
                      last = message->payload;
                    }
                    CHECK(gaps == 1);
                  });
}

TEST_CASE("a channel that this user may not hear is an error, and silences no other") {
  RedisServer server({.users = {"deaf on >pw ~* resetchannels &allowed +@all"}});
  auto settings = settings_for(server);
  settings.credentials = {"deaf", "pw"};
  with_subscriber(
      settings, {},
      [](Client&, Subscriber& news, RedisServer& s) -> awaitable<void> {
        for (auto name : {"a forbidden one", "allowed", "forbidden"}) news.subscribe(name);
        news.psubscribe("p.*");
        auto settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(!settled);
        CHECK(settled.error().code == Errc::denied);
        CHECK(settled.error().what.find("a forbidden one") != std::string::npos);
        CHECK(s.cli({"PUBLISH", "allowed", "1"}) == "1");
        co_await expect_message(news, "allowed", "1");
        // No gap came before that message: the connection did not break.

        news.unsubscribe("a forbidden one");
        news.punsubscribe("p.*");
        settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(!settled);
        CHECK(settled.error().what.find("forbidden") != std::string::npos);
        s.kill();
        s.restart();
        co_await expect_gap(news);
        CHECK(s.cli({"PUBLISH", "allowed", "2"}) == "1");
        co_await expect_message(news, "allowed", "2");
        settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(!settled);
        CHECK(settled.error().code == Errc::denied);
      },
      server);
}

TEST_CASE("a channel that was refused is asked for again when it is subscribed again") {
  RedisServer server({.users = {"deaf on >pw ~* resetchannels &allowed +@all"}});
  auto settings = settings_for(server);
  settings.credentials = {"deaf", "pw"};
  with_subscriber(
      settings, {},
      [](Client&, Subscriber& news, RedisServer& s) -> awaitable<void> {
        news.subscribe("forbidden");
        auto settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(!settled);
        s.cli({"ACL", "SETUSER", "deaf", "&forbidden"});
        news.subscribe("forbidden");
        settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        s.cli({"PUBLISH", "forbidden", "1"});
        co_await expect_message(news, "forbidden", "1");
      },
      server);
}

TEST_CASE("a channel that is left and wanted again at once costs no connection and no gap") {
  RedisServer server;
  FaultyLink link(server.port());
  with_subscriber(
      settings_for(link.port()), {},
      [](Client&, Subscriber& news, RedisServer& s, FaultyLink& l) -> awaitable<void> {
        for (auto channel : {"a", "other"}) news.subscribe(channel);
        news.ssubscribe("shard");
        auto settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        l.delay(Direction::to_client, 100ms);
        auto before = l.counters().accepted;
        news.unsubscribe("a");
        news.sunsubscribe("shard");
        // The server has heard of it, and its confirmation is still under way.
        co_await eventually(
            10s, "the channels are left",
            [](RedisServer& x) {
              return x.cli({"PUBSUB", "NUMSUB", "a"}).ends_with("0") &&
                     x.cli({"PUBSUB", "SHARDNUMSUB", "shard"}).ends_with("0");
            },
            s);
        news.subscribe("a");
        news.ssubscribe("shard");
        settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        s.cli({"PUBLISH", "a", "1"});
        co_await expect_message(news, "a", "1");
        s.cli({"SPUBLISH", "shard", "2"});
        co_await expect_message(news, "shard", "2");
        CHECK(l.counters().accepted == before);
      },
      server, link);
}

TEST_CASE("in Sentinel mode, too, a channel that is left and wanted again disturbs nobody") {
  SentinelTrio trio;
  with_subscriber(
      settings_for(trio), {},
      [](Client& client, Subscriber& news, SentinelTrio& t) -> awaitable<void> {
        for (auto channel : {"a", "other"}) news.subscribe(channel);
        auto settled = co_await news.settled(Clock::now() + 20s);
        REQUIRE(settled);
        auto set = co_await client.command(Command("SET", "x", "1"), CallOptions().within(10s));
        REQUIRE(set);
        auto before = client.counters().connects;
        auto& primary = t.primary();
        primary.pause();  // a hiccup, so that the confirmations come late
        news.unsubscribe("a");
        co_await sleep_for(20ms);  // both are sent, one after the other
        news.subscribe("a");
        co_await sleep_for(20ms);
        primary.resume();
        settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        primary.cli({"PUBLISH", "a", "1"});
        co_await expect_message(news, "a", "1");
        CHECK(client.counters().connects == before);
      },
      trio);
}

TEST_CASE("a subscription leaves a primary that does not know yet that it was replaced") {
  SentinelTrio trio;
  with_subscriber(
      settings_for(trio), {},
      [](Client&, Subscriber& news, SentinelTrio& t) -> awaitable<void> {
        news.subscribe("a");
        auto settled = co_await news.settled(Clock::now() + 20s);
        REQUIRE(settled);
        // A partition: it goes on for those who listen, but neither sentinels nor anybody new
        // can talk to it.
        auto& old = t.primary();
        old.cli({"CONFIG", "SET", "requirepass", "cut off"});
        ControlTarget target{old.port(), "default", "cut off"};
        auto cut = control(target, {"CLIENT", "KILL", "TYPE", "normal"}, 10s);
        REQUIRE(cut);
        co_await expect_gap(news);
        auto listeners = control(target, {"PUBSUB", "NUMSUB", "a"}, 10s);
        REQUIRE(listeners);
        CHECK(listeners->back() == "0");
        for (auto* server : t.servers())
          if (server != &old && server->info("role") == "master")
            CHECK(server->cli({"PUBLISH", "a", "1"}) == "1");
        co_await expect_message(news, "a", "1");
      },
      trio);
}

TEST_CASE("who wants nothing has no connection, and leaves a dead server alone") {
  RedisServer server;
  FaultyLink link(server.port());
  with_subscriber(
      settings_for(link.port()), {},
      [](Client& client, Subscriber& news, RedisServer& s, FaultyLink& l) -> awaitable<void> {
        news.unsubscribe("never wanted");
        news.subscribe("a");
        auto settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        auto listeners = [](RedisServer& x) { return x.cli({"CLIENT", "LIST", "TYPE", "pubsub"}); };
        CHECK(listeners(s) != "");
        news.unsubscribe("a");
        settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        co_await eventually(
            10s, "the connection ends", [](RedisServer& x, auto& f) { return f(x) == ""; }, s,
            listeners);

        // Wanted again, it is subscribed again; nothing that was wanted was missed.
        news.subscribe("a");
        settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        s.cli({"PUBLISH", "a", "1"});
        co_await expect_message(news, "a", "1");

        news.unsubscribe("a");
        settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        auto others = [](Client& c, FaultyLink& f) {
          auto own = c.counters().connects + c.counters().connect_failures;
          return static_cast<std::int64_t>(f.counters().accepted) - static_cast<std::int64_t>(own);
        };
        auto before = others(client, l);
        s.kill();
        co_await eventually(
            20s, "the client itself has tried often",
            [](Client& c) { return c.counters().connect_failures >= 6; }, client);
        CHECK(others(client, l) <= before + 1);  // one of its own may be under way
      },
      server, link);
}

TEST_CASE("who waits for a message or for a confirmation is told when the subscriber closes") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        Subscriber news(client);
        s.pause();
        news.subscribe("a");
        int waiting = 0, told = 0;
        TaskGroup waiters(client.executor());
        auto listen = [](Subscriber& n, int& w, int& t) -> Async<> {
          ++w;
          auto message = co_await n.next();
          t += !message && message.error().code == Errc::cancelled;
          co_return ok;
        };
        auto settle = [](Subscriber& n, int& w, int& t) -> Async<> {
          ++w;
          auto settled = co_await n.settled(Clock::now() + 60s);
          t += !settled && settled.error().code == Errc::cancelled;
          co_return ok;
        };
        waiters.start("listener", listen(news, waiting, told));
        waiters.start("settler", settle(news, waiting, told));
        co_await eventually(10s, "both wait", [](int& w) { return w == 2; }, waiting);
        co_await news.close();
        co_await waiters.join();
        CHECK(told == 2);

        news.subscribe("b");
        auto later = co_await news.next();
        REQUIRE(!later);
        CHECK(later.error().code == Errc::cancelled);
        auto settled = co_await news.settled(Clock::now() + 60s);
        REQUIRE(!settled);
        CHECK(settled.error().code == Errc::cancelled);
        s.resume();
      },
      server);
}

TEST_CASE("a subscription leaves a demoted server together with everybody else") {
  RedisServer old, next;
  FaultyLink address(old.port());
  auto settings = settings_for(address.port());
  settings.ping_interval = 50ms;
  with_subscriber(
      settings, {},
      [](Client& client, Subscriber& news, RedisServer& o, RedisServer& n,
         FaultyLink& a) -> awaitable<void> {
        news.subscribe("a");
        auto settled = co_await news.settled(Clock::now() + 20s);
        REQUIRE(settled);
        o.cli({"REPLICAOF", "127.0.0.1", "1"});  // it hears nothing of the other
        a.lead_to(n.port());
        auto written = co_await client.command(Command("SET", "k", "1"), CallOptions().within(20s));
        REQUIRE(written);
        co_await expect_gap(news);
        CHECK(n.cli({"PUBLISH", "a", "1"}) == "1");
        co_await expect_message(news, "a", "1");
      },
      old, next, address);
}

namespace {

// The node of a cluster to which somebody has subscribed.
std::size_t carrier_of(RedisCluster& cluster) {
  for (std::size_t i = 0; i < 6; ++i)
    if (cluster.node(i).cli({"CLIENT", "LIST", "TYPE", "pubsub"}) != "") return i;
  FAIL("nobody has subscribed");
  return 0;
}

void forget(RedisCluster& cluster, RedisServer& node) {
  for (auto* other : cluster.nodes())
    if (other != &node) other->cli({"CLUSTER", "FORGET", cluster.id(node)});
}

// A server leaves the cluster, as `leave` has it, with the global subscription on it.
template <class Leave>
void leave_with_subscription(Leave leave) {
  RedisCluster cluster;
  auto settings = settings_for(cluster);
  settings.ping_interval = 50ms;
  with_subscriber(
      settings, {},
      [](Client& client, Subscriber& news, RedisCluster& c, Leave& go) -> awaitable<void> {
        news.subscribe("a");
        auto settled = co_await news.settled(Clock::now() + 20s);
        REQUIRE(settled);
        auto index = carrier_of(c);
        go(client, c, index);
        co_await expect_gap(news);
        CHECK(carrier_of(c) != index);
        auto& other = c.node((index + 1) % 3);
        other.cli({"PUBLISH", "a", "from elsewhere"});
        co_await expect_message(news, "a", "from elsewhere");
      },
      cluster, leave);
}

}  // namespace

TEST_CASE("a subscription leaves a server that was taken out of the cluster, and tells a gap") {
  leave_with_subscription([](Client&, RedisCluster& cluster, std::size_t carrier) {
    cluster.failover(cluster.node(carrier + 3));  // so that it owns nothing any more
    forget(cluster, cluster.node(carrier));
    cluster.node(carrier).cli({"CLUSTER", "RESET"});
  });
}

TEST_CASE("a subscription leaves a server that the others have forgotten, and tells a gap") {
  leave_with_subscription([](Client& client, RedisCluster& cluster, std::size_t carrier) {
    cluster.failover(cluster.node(carrier + 3));
    forget(cluster, cluster.node(carrier));
    client.on_moved({Errc::unavailable, "something is different"});
  });
}

TEST_CASE("a subscription leaves a server that was reset while the others still count on it") {
  leave_with_subscription([](Client&, RedisCluster& cluster, std::size_t carrier) {
    cluster.node(carrier).cli({"CLUSTER", "RESET"});
  });
}
