// Commands on connections of their own: those that block, and durable writes.
#include <array>

#include "proof/testkit/faulty_link.h"
#include "with_client.h"

using namespace warren;
using namespace warren::redis;
using namespace asio::experimental::awaitable_operators;

namespace {

// How a call ended; the code is that of its error, if it had one.
struct Outcome {
  bool is_over = false;
  std::optional<Errc> code;
};

Async<> block(Client& client, Outcome& ending) {
  auto reply = co_await client.blocking(Command("BLPOP", "q", "0"), CallOptions().within(1h));
  if (!reply) ending.code = reply.error().code;
  ending.is_over = true;
  co_return ok;
}

Async<> increment_durably(Client& client, Outcome& ending) {
  auto written = co_await client.durable(Command("INCR", "k"), 0, CallOptions().within(1h));
  if (!written) ending.code = written.error().code;
  ending.is_over = true;
  co_return ok;
}

// Closes the client while the call is under way and destroys it at once.
template <class Call, class Fact>
void close_during(RedisServer& server, Call call, Fact is_under_way) {
  run([](RedisServer& s, Call start, Fact fact) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto client = Client::create(executor, settings_for(s));
    REQUIRE(client);
    TaskGroup callers(executor);
    Outcome ending;
    callers.start("caller", start(**client, ending));
    co_await eventually(10s, "the call is under way", fact, s);
    CHECK(!ending.is_over);
    co_await (*client)->close();
    client->reset();
    CHECK(ending.is_over);
    CHECK(ending.code == Errc::cancelled);
    co_await callers.join();
    co_await eventually(
        10s, "all connections are closed",
        [](RedisServer& r) { return r.info("connected_clients") == "1"; }, s);
  }(server, call, is_under_way));
}

bool has_run(RedisServer& server, const std::string& command) {
  return server.cli({"INFO", "commandstats"}).find("cmdstat_" + command + ":") != std::string::npos;
}

RedisServer& another_primary(RedisCluster& cluster, const RedisServer& one) {
  return &one == &cluster.node(0) ? cluster.node(1) : cluster.node(0);
}

}  // namespace

TEST_CASE("closing a client ends its blocking commands, and then it may be destroyed") {
  RedisServer server;
  close_during(server, block, [](RedisServer& s) { return s.info("blocked_clients") == "1"; });
}

TEST_CASE("closing a client ends a durable write whose server is silent") {
  RedisServer server;
  run([](RedisServer& s) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto client = Client::create(executor, settings_for(s));
    REQUIRE(client);
    auto first = co_await (*client)->durable(Command("SET", "a", "1"), 0);
    REQUIRE(first);
    s.pause();
    TaskGroup callers(executor);
    Outcome ending;
    callers.start("caller", increment_durably(**client, ending));
    co_await sleep_for(1ms);
    co_await (*client)->close();
    CHECK(ending.code == Errc::cancelled);
    s.resume();
    auto late = co_await (*client)->durable(Command("SET", "a", "2"), 0, CallOptions().within(1h));
    REQUIRE(!late);
    CHECK(late.error().code == Errc::cancelled);
    auto later = co_await (*client)->blocking(Command("BLPOP", "q", "0"), CallOptions().within(1h));
    REQUIRE(!later);
    CHECK(later.error().code == Errc::cancelled);
    client->reset();
    co_await callers.join();
  }(server));
}

TEST_CASE("closing a client ends a durable write that waits to be tried again") {
  RedisServer server({.config = {"min-replicas-to-write 1"}});
  close_during(server, increment_durably, [](RedisServer& s) { return has_run(s, "wait"); });
}

TEST_CASE("who may not use WAIT learns of no replicas, and does not flood the server") {
  RedisServer server({.users = {"alice on >secret ~* &* +@all -wait"}});
  auto settings = settings_for(server);
  settings.credentials = {"alice", "secret"};
  with_client(
      settings,
      [](Client& client, RedisServer& s) -> awaitable<void> {
        auto before = std::stol(s.info("total_reads_processed"));
        auto written =
            co_await client.durable(Command("SET", "k", "v"), 1, CallOptions().within(1s));
        REQUIRE(written);
        CHECK(written->replicas == 0);
        CHECK(std::stol(s.info("total_reads_processed")) - before < 100);
      },
      server);
}

TEST_CASE("when whoever waits for replicas has left, the server is not asked for them any more") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& redis) -> awaitable<void> {
        auto alone =
            co_await client.durable(Command("SET", "k", "v"), 1, CallOptions().within(300ms));
        REQUIRE(alone);
        CHECK(alone->replicas == 0);
        auto is_quiet = [](RedisServer& r) -> awaitable<bool> {
          auto waits = [&r] {
            auto all = r.cli({"INFO", "commandstats"});
            auto begin = all.find("cmdstat_wait:");
            return all.substr(begin, all.find('\n', begin) - begin);
          };
          auto before = waits();
          co_await sleep_for(300ms);  // of WAITs that last 100 ms at most
          co_return waits() == before;
        };
        co_await eventually(10s, "no WAIT comes any more", is_quiet, redis);
      },
      server);
}

TEST_CASE("durable writes are bounded by number and bytes; those who left do not count") {
  RedisServer server;
  auto settings = settings_for(server);
  settings.max_calls = 4;
  settings.max_call_bytes = 1000;
  server.pause();
  with_client(
      settings,
      [](Client& client, RedisServer& s) -> awaitable<void> {
        auto large = co_await client.durable(Command("SET", "k", std::string(2000, 'x')), 0);
        REQUIRE(!large);
        CHECK(large.error().code == Errc::overloaded);
        for (int i = 0; i < 5; ++i) {
          auto late = co_await client.durable(Command("INCR", "k"), 0, CallOptions().within(10ms));
          REQUIRE(!late);
          CHECK(late.error().code == Errc::timeout);
        }
        TaskGroup callers(client.executor());
        std::array<Outcome, 4> endings;
        for (auto& ending : endings) callers.start("caller", increment_durably(client, ending));
        co_await sleep_for(1ms);  // they run now
        auto fifth = co_await client.durable(Command("INCR", "k"), 0, CallOptions().within(1h));
        REQUIRE(!fifth);
        CHECK(fifth.error().code == Errc::overloaded);
        s.resume();
        co_await callers.join();
        for (const auto& ending : endings) CHECK(!ending.code);
        CHECK(s.cli({"GET", "k"}) == "4");
      },
      server);
}

TEST_CASE("an idempotent durable write is sent again when its connection broke") {
  RedisServer server;
  FaultyLink link(server.port());
  with_client(
      settings_for(link.port()),
      [](Client& client, FaultyLink& l) -> awaitable<void> {
        auto options = CallOptions().within(20s).idempotent();
        auto first = co_await client.durable(Command("SET", "a", "1"), 0, options);
        REQUIRE(first);
        l.cut();
        l.heal();
        auto again = co_await client.durable(Command("SET", "a", "2"), 0, options);
        CHECK(again);
        auto popped = co_await client.blocking(Command("BLPOP", "q", "0.01"), options);
        CHECK(popped);
      },
      link);
}

TEST_CASE("what may not run twice is not sent again on any connection, though it may be lost") {
  RedisServer server;
  FaultyLink link(server.port());
  with_client(
      settings_for(link.port()),
      [](Client& client, FaultyLink& l, RedisServer& s) -> awaitable<void> {
        auto options = CallOptions().within(20s);
        auto lose_when = [](FaultyLink& x, RedisServer& r, std::vector<std::string> question,
                            std::string answer) -> Async<> {
          co_await eventually(
              20s, "it was done",
              [](RedisServer& t, auto& words, auto& text) { return t.cli(words) == text; }, r,
              question, answer);
          x.cut();
          x.heal();
          co_return ok;
        };
        auto first = co_await client.durable(Command("SET", "n", "0"), 0, options);
        REQUIRE(first);
        l.drop(Direction::to_client);
        std::vector<std::string> get{"GET", "n"};
        auto [written, cut] = co_await (client.durable(Command("INCR", "n"), 0, options) &&
                                        lose_when(l, s, get, "1"));
        REQUIRE(!written);
        CHECK(written.error().code == Errc::unknown_outcome);
        CHECK(s.cli({"GET", "n"}) == "1");

        auto push = [](FaultyLink& x, RedisServer& r) -> Async<> {
          co_await eventually(
              20s, "it blocks", [](RedisServer& t) { return t.info("blocked_clients") == "1"; }, r);
          x.drop(Direction::to_client);
          r.cli({"RPUSH", "q", "1", "2"});
          x.cut();
          x.heal();
          co_return ok;
        };
        auto [popped, pushed] =
            co_await (client.blocking(Command("BLPOP", "q", "20"), options) && push(l, s));
        REQUIRE(!popped);
        CHECK(popped.error().code == Errc::unknown_outcome);
        CHECK(s.cli({"LLEN", "q"}) == "1");
      },
      link, server);
}

TEST_CASE("what may have been done is never said to be late or unavailable") {
  RedisServer server;
  FaultyLink link(server.port());
  with_client(
      settings_for(link.port()),
      [](Client& client, FaultyLink& l, RedisServer& s) -> awaitable<void> {
        auto first = co_await client.durable(Command("SET", "a", "1"), 0);
        REQUIRE(first);
        l.drop(Direction::to_client);
        auto options = CallOptions().within(1s).idempotent();
        auto cut_when_done = [](FaultyLink& x, RedisServer& r) -> awaitable<void> {
          co_await eventually(
              10s, "it was done", [](RedisServer& t) { return t.cli({"GET", "a"}) == "2"; }, r);
          x.cut();
        };
        auto write = client.durable(Command("SET", "a", "2"), 0, options);
        auto lost = co_await (std::move(write) && cut_when_done(l, s));
        REQUIRE(!lost);
        CHECK(lost.error().code == Errc::unknown_outcome);

        auto never = co_await client.durable(Command("SET", "a", "3"), 0, options.within(100ms));
        REQUIRE(!never);
        CHECK(never.error().code == Errc::unavailable);
        auto before = Clock::now();
        auto fast = CallOptions().within(1h).fail_fast();
        auto failed = co_await client.durable(Command("SET", "a", "3"), 0, fast);
        REQUIRE(!failed);
        CHECK(failed.error().code == Errc::unavailable);
        auto blocked = co_await client.blocking(Command("BLPOP", "q", "0"), fast);
        REQUIRE(!blocked);
        CHECK(blocked.error().code == Errc::unavailable);
        CHECK(Clock::now() - before < 30s);
        CHECK(s.cli({"GET", "a"}) == "2");
      },
      link, server);
}

TEST_CASE("a wrong password is told at once, also to durable writes and blocking commands") {
  RedisServer server({.password = "right"});
  auto settings = settings_for(server);
  settings.credentials = {"", "wrong"};
  with_client(settings, [](Client& client) -> awaitable<void> {
    auto options = CallOptions().within(1h);
    auto written = co_await client.durable(Command("SET", "a", "1"), 0, options);
    REQUIRE(!written);
    CHECK(written.error().code == Errc::denied);
    auto blocked = co_await client.blocking(Command("BLPOP", "q", "0"), options);
    REQUIRE(!blocked);
    CHECK(blocked.error().code == Errc::denied);
  });
}

TEST_CASE("a blocking command waits for its server to come back") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        auto options = CallOptions().within(20s);
        auto first = co_await client.blocking(Command("BLPOP", "q", "0.01"), options);
        REQUIRE(first);
        s.kill();
        auto restart = [](RedisServer& r) -> awaitable<void> {
          co_await sleep_for(50ms);
          r.restart();
        };
        auto pop = client.blocking(Command("BLPOP", "q", "0.01"), options);
        auto popped = co_await (std::move(pop) && restart(s));
        CHECK(popped);
      },
      server);
}

TEST_CASE("durable writes and blocking commands follow a primary that was demoted and stays up") {
  SentinelTrio trio;
  with_client(
      settings_for(trio),
      [](Client& client, SentinelTrio& t) -> awaitable<void> {
        auto options = CallOptions().within(20s);
        auto first = co_await client.durable(Command("SET", "a", "1"), 1, options);
        REQUIRE(first);
        auto popped = co_await client.blocking(Command("BLPOP", "q", "0.01"), options);
        REQUIRE(popped);
        auto before = client.counters().connects;
        t.failover();
        auto second = co_await client.durable(Command("SET", "a", "2"), 1, options);
        CHECK_MESSAGE(second, (second ? "" : second.error().what));
        popped = co_await client.blocking(Command("BLPOP", "q", "0.01"), options);
        CHECK_MESSAGE(popped, (popped ? "" : popped.error().what));
        CHECK(client.counters().connects - before <= 2);  // of the shared connection
      },
      trio);
}

TEST_CASE("a blocking command follows its slot, also when nobody has noticed that it moved") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        auto options = CallOptions().within(20s);
        auto pushed = co_await client.command(Command("RPUSH", "q", 1, 2, 3, 4), options);
        REQUIRE(pushed);
        auto first = co_await client.blocking(Command("BLPOP", "q", "1"), options);
        REQUIRE(first);
        auto& from = c.owner(slot_of("q"));
        c.migrate_slot(slot_of("q"), from, another_primary(c, from));
        for (auto expected : {"[\"q\", \"2\"]", "[\"q\", \"3\"]", "[\"q\", \"4\"]"}) {
          auto popped = co_await client.blocking(Command("BLPOP", "q", "1"), options);
          REQUIRE_MESSAGE(popped, (popped ? "" : popped.error().what));
          CHECK(to_string(*popped) == expected);
        }
      },
      cluster);
}

TEST_CASE("durable writes and blocking commands follow a slot while it moves") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        auto options = CallOptions().within(20s);
        int slot = slot_of("k");
        auto& from = c.owner(slot);
        auto& to = another_primary(c, from);
        c.begin_migration(slot, from, to);
        auto written = co_await client.durable(Command("SET", "k", "2"), 1, options);
        REQUIRE_MESSAGE(written, (written ? "" : written.error().what));
        CHECK(written->replicas == 1);
        auto pushed = co_await client.durable(Command("RPUSH", "{k}q", "x"), 0, options);
        REQUIRE_MESSAGE(pushed, (pushed ? "" : pushed.error().what));
        auto popped = co_await client.blocking(Command("BLPOP", "{k}q", "1"), options);
        REQUIRE_MESSAGE(popped, (popped ? "" : popped.error().what));
        CHECK(to_string(*popped) == "[\"{k}q\", \"x\"]");
        c.end_migration(slot, from, to);
        written = co_await client.durable(Command("SET", "k", "3"), 1, options);
        CHECK_MESSAGE(written, (written ? "" : written.error().what));
        CHECK(to.cli({"GET", "k"}) == "3");
      },
      cluster);
}

TEST_CASE("a durable write that waits for a dead primary goes to its successor") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        auto options = CallOptions().within(30s);
        auto first = co_await client.durable(Command("SET", "key", "1"), 0, options);
        REQUIRE(first);
        c.owner(slot_of("key")).kill();
        auto second = co_await client.durable(Command("SET", "key", "2"), 0, options.idempotent());
        CHECK_MESSAGE(second, (second ? "" : second.error().what));
      },
      cluster);
}
