// One server and one client, and everything that can happen between them.
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>

#include "proof/testkit/faulty_link.h"
#include "with_client.h"

using namespace warren;
using namespace warren::redis;
using namespace asio::experimental::awaitable_operators;

namespace {

// On a shared machine a timer may fire late; a hang is still told from a delay.
constexpr auto slack = 2s;

std::size_t open_descriptors() {
  auto folder = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(folder), end(folder)));
}

Async<> increment(Client& client, std::string key, int times) {
  for (int i = 1; i <= times; ++i) {
    auto count = co_await client.command(Command("INCR", key));
    REQUIRE(count);
    REQUIRE(count->number == i);
  }
  co_return ok;
}

// Sends a command with a deadline and checks that it ends there, not earlier and not much later.
Async<> ends_at_deadline(Client& client, Clock::duration time, Errc expected) {
  auto before = Clock::now();
  auto reply = co_await client.command(Command("INCR", "k"), CallOptions().by(before + time));
  auto took = Clock::now() - before;
  REQUIRE(!reply);
  CHECK(reply.error().code == expected);
  CHECK(took >= time);
  CHECK(took < time + slack);
  co_return ok;
}

}  // namespace

TEST_CASE("a thousand callers share one connection, and each gets its own answers") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        TaskGroup callers(client.executor());
        for (int i = 0; i < 1000; ++i)
          callers.start("caller", increment(client, fmt::format("key:{}", i), 20));
        co_await callers.join();
        CHECK(s.info("total_commands_processed") > "20000");
        CHECK(client.counters().connects == 1);
        CHECK(client.counters().calls.writes < 2000);
        CHECK(client.counters().pending == 0);
      },
      server);
}

TEST_CASE("a batch is one await for many commands, each with its own result") {
  RedisServer server;
  with_client(settings_for(server), [](Client& client) -> awaitable<void> {
    std::vector<Command> commands;
    commands.emplace_back("SET", "a", "1");
    commands.emplace_back("LPUSH", "a", "not a list");
    commands.emplace_back("INCR", "a");
    auto results = co_await client.batch(std::move(commands));
    REQUIRE(results.size() == 3);
    CHECK(results[0]);
    REQUIRE(!results[1]);
    CHECK(results[1].error().code == Errc::refused);
    CHECK(results[1].error().what.starts_with("WRONGTYPE"));
    REQUIRE(results[2]);
    CHECK(results[2]->number == 2);
    auto none = co_await client.batch({});
    CHECK(none.empty());
  });
}

TEST_CASE("a transaction runs as one, and a bad command in it keeps all of it from running") {
  RedisServer server;
  with_client(settings_for(server), [](Client& client) -> awaitable<void> {
    std::vector<Command> good;
    good.emplace_back("SET", "a", "1");
    good.emplace_back("INCRBY", "a", 41);
    auto reply = co_await client.transaction(std::move(good));
    REQUIRE(reply);
    CHECK(to_string(*reply) == "[OK, 42]");
    std::vector<Command> bad;
    bad.emplace_back("SET", "a", "2");
    bad.emplace_back("NOSUCHCOMMAND", "a");
    auto refused = co_await client.transaction(std::move(bad));
    REQUIRE(!refused);
    CHECK(refused.error().what.find("NOSUCHCOMMAND") != std::string::npos);
    auto value = co_await client.command(Command("GET", "a"));
    REQUIRE(value);
    CHECK(value->text == "42");
  });
}

TEST_CASE("a script is called by its hash, and by its source when the server has forgotten it") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        Script add("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])");
        for (int round = 1; round <= 3; ++round) {
          std::vector<std::string> keys{"total"}, args{"5"};
          auto sum = co_await client.run(add, keys, args);
          REQUIRE(sum);
          CHECK(sum->number == 5 * round);
          if (round == 2) s.cli({"SCRIPT", "FLUSH"});
        }
        CHECK(s.cli({"SCRIPT", "EXISTS", add.hash()}).find('1') != std::string::npos);
      },
      server);
}

TEST_CASE("a value of many megabytes arrives whole, and small answers behind it in order") {
  RedisServer server;
  with_client(settings_for(server), [](Client& client) -> awaitable<void> {
    std::string large(8'000'000, 'x');
    large.front() = 'a';
    large.back() = 'z';
    auto set = co_await client.command(Command("SET", "large", large), CallOptions().within(30s));
    REQUIRE(set);
    std::vector<Command> commands;
    commands.emplace_back("GET", "large");
    commands.emplace_back("STRLEN", "large");
    auto results = co_await client.batch(std::move(commands), CallOptions().within(30s));
    REQUIRE(results[0]);
    CHECK(results[0]->text == large);
    REQUIRE(results[1]);
    CHECK(results[1]->number == 8'000'000);
  });
}

TEST_CASE("a paused server ends every call at its own deadline, and the connection is kept") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        auto ready = co_await client.ready(Clock::now() + 10s);
        REQUIRE(ready);
        s.pause();
        TaskGroup callers(client.executor());
        for (int i = 1; i <= 64; ++i)
          callers.start("caller", ends_at_deadline(client, i * 5ms, Errc::unknown_outcome));
        co_await callers.join();
        s.resume();
        auto pong = co_await client.command(Command("PING"), CallOptions().within(10s));
        CHECK(pong);
        CHECK(client.counters().connects == 1);
      },
      server);
}

TEST_CASE("a server that is not there ends every call at its own deadline, saying why") {
  auto port = [] { return RedisServer().port(); }();  // whoever had it is gone
  with_client(settings_for(port), [](Client& client) -> awaitable<void> {
    TaskGroup callers(client.executor());
    for (int i = 1; i <= 10; ++i)
      callers.start("caller", ends_at_deadline(client, i * 20ms, Errc::unavailable));
    co_await callers.join();
    auto before = Clock::now();
    auto fast = co_await client.command(Command("PING"), CallOptions().within(30s).fail_fast());
    REQUIRE(!fast);
    CHECK(fast.error().what.find("refused") != std::string::npos);
    CHECK(Clock::now() - before < 10s);
  });
}

TEST_CASE("what was never sent waits for the server to come back") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        REQUIRE(co_await client.command(Command("SET", "a", "1")));
        s.kill();
        co_await eventually(
            10s, "the loss is noticed",
            [](Client& c) { return !c.topology().nodes[0].is_connected; }, client);
        auto restart = [](RedisServer& r) -> Async<> {
          r.restart();
          co_return ok;
        };
        auto [set, restarted] = co_await (
            client.ask(Command("SET", "b", "2"), CallOptions().within(30s)) && restart(s));
        CHECK(set);
        CHECK(s.cli({"GET", "b"}) == "2");
      },
      server);
}

TEST_CASE("a lost answer leaves an unknown outcome: the command may well have run") {
  RedisServer server;
  FaultyLink link(server.port());
  with_client(
      settings_for(link.port()),
      [](Client& client, RedisServer& s, FaultyLink& l) -> awaitable<void> {
        auto ready = co_await client.ready(Clock::now() + 10s);
        REQUIRE(ready);
        l.cut_after(Direction::to_client, 0);
        auto lost = co_await client.command(Command("INCR", "n"), CallOptions().within(10s));
        REQUIRE(!lost);
        CHECK(lost.error().code == Errc::unknown_outcome);
        CHECK(s.cli({"GET", "n"}) == "1");

        // The same loss is no trouble for a command that may run twice.
        REQUIRE(co_await client.ready(Clock::now() + 10s));
        l.cut_after(Direction::to_client, 1);
        auto read =
            co_await client.command(Command("GET", "n"), CallOptions().within(10s).idempotent());
        REQUIRE(read);
        CHECK(read->text == "1");
        CHECK(client.counters().connects == 3);
      },
      server, link);
}

TEST_CASE(
    "a connection cut after any number of bytes never gives a caller somebody else's answer") {
  RedisServer server;
  FaultyLink link(server.port());
  with_client(
      settings_for(link.port()),
      [](Client& client, FaultyLink& l) -> awaitable<void> {
        REQUIRE(co_await client.ready(Clock::now() + 10s));
        for (std::size_t bytes = 0; bytes < 60; ++bytes) {
          l.cut_after(Direction::to_client, bytes);
          std::vector<Command> echoes;
          for (int i = 0; i < 8; ++i) echoes.emplace_back("ECHO", fmt::format("word-{}", i));
          auto results =
              co_await client.batch(std::move(echoes), CallOptions().within(20s).idempotent());
          for (int i = 0; i < 8; ++i) {
            REQUIRE(results[static_cast<std::size_t>(i)]);
            REQUIRE(results[static_cast<std::size_t>(i)]->text == fmt::format("word-{}", i));
          }
        }
        CHECK(client.counters().connects > 50);
      },
      link);
}

TEST_CASE("a link that is half open is noticed by its silence, and replaced") {
  RedisServer server;
  FaultyLink link(server.port());
  auto settings = settings_for(link.port());
  settings.ping_interval = 50ms;
  settings.silence_limit = 200ms;
  settings.connect_timeout = 200ms;
  with_client(
      settings,
      [](Client& client, FaultyLink& l) -> awaitable<void> {
        REQUIRE(co_await client.ready(Clock::now() + 10s));
        l.half_open();
        // Nobody asks for anything: the client finds out by itself.
        co_await eventually(
            20s, "the silence is noticed",
            [](Client& c) { return !c.topology().nodes[0].is_connected; }, client);
        l.heal();
        auto pong = co_await client.command(Command("PING"), CallOptions().within(20s));
        CHECK(pong);
      },
      link);
}

TEST_CASE("cancelling one caller disturbs no other") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        REQUIRE(co_await client.ready(Clock::now() + 10s));
        s.pause();
        TaskGroup staying(client.executor());
        TaskGroup leaving(client.executor());
        auto echo = [](Client& c, int i, int& ended, bool stays) -> Async<> {
          auto reply =
              co_await c.command(Command("ECHO", std::to_string(i)), CallOptions().within(30s));
          ++ended;
          if (stays) {
            REQUIRE(reply);
            CHECK(reply->text == std::to_string(i));
          } else {
            REQUIRE(!reply);
            CHECK(reply.error().code == Errc::cancelled);
          }
          co_return ok;
        };
        int stayed = 0, left = 0;
        for (int i = 0; i < 50; ++i) {
          staying.start("stays", echo(client, i, stayed, true));
          leaving.start("leaves", echo(client, 1000 + i, left, false));
        }
        co_await eventually(
            10s, "all are under way", [](Client& c) { return c.counters().pending >= 100; },
            client);
        leaving.stop();
        co_await leaving.join();
        CHECK(left == 50);
        CHECK(stayed == 0);
        s.resume();
        co_await staying.join();
        CHECK(stayed == 50);
      },
      server);
}

TEST_CASE("over the bound callers are told at once, while renewals have room of their own") {
  RedisServer server;
  auto settings = settings_for(server);
  settings.max_calls = 10;
  with_client(
      settings,
      [](Client& client, RedisServer& s) -> awaitable<void> {
        REQUIRE(co_await client.ready(Clock::now() + 10s));
        auto renewal = CallOptions().within(30s).lane(Lane::renewal);
        REQUIRE(co_await client.command(Command("PING"), renewal));
        s.pause();
        std::vector<Command> flood;
        for (int i = 0; i < 100; ++i) flood.emplace_back("PING");
        auto results = co_await client.batch(std::move(flood), CallOptions().within(300ms));
        auto overloaded = std::ranges::count_if(
            results, [](auto& r) { return !r && r.error().code == Errc::overloaded; });
        CHECK(overloaded == 90);
        auto resume = [](RedisServer& r) -> Async<> {
          r.resume();
          co_return ok;
        };
        auto [renewed, resumed] = co_await (client.ask(Command("PING"), renewal) && resume(s));
        CHECK(renewed);
      },
      server);
}

TEST_CASE("a command that the server cannot take yet is tried again until it can") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        s.cli({"CONFIG", "SET", "min-replicas-to-write", "1"});
        auto why = co_await refusal(client, Command("SET", "a", "1"));
        CHECK(why.code == Errc::unavailable);
        CHECK(why.what.contains("NOREPLICAS"));
        auto relent = [](RedisServer& r) -> Async<> {
          co_await sleep_for(50ms);
          r.cli({"CONFIG", "SET", "min-replicas-to-write", "0"});
          co_return ok;
        };
        auto [set, relented] =
            co_await (client.ask(Command("SET", "a", "1"), CallOptions().within(20s)) && relent(s));
        CHECK(set);
      },
      server);
}

TEST_CASE("a server behind an address that was demoted is left for the one that took over") {
  RedisServer old, next;
  FaultyLink address(old.port());
  with_client(
      settings_for(address.port()),
      [](Client& client, RedisServer& o, RedisServer& n, FaultyLink& a) -> awaitable<void> {
        auto first = co_await client.command(Command("SET", "k", "1"), CallOptions().within(20s));
        REQUIRE(first);
        o.cli({"REPLICAOF", "127.0.0.1", std::to_string(n.port())});
        a.lead_to(n.port());
        auto began = Clock::now();
        auto second = co_await client.command(Command("SET", "k", "2"), CallOptions().within(20s));
        REQUIRE_MESSAGE(second, (second ? "" : second.error().what));
        CHECK(Clock::now() - began < 5s);
        CHECK(n.cli({"GET", "k"}) == "2");
        auto renewal = CallOptions().within(20s).lane(Lane::renewal);
        CHECK(co_await client.command(Command("SET", "k", "3"), renewal));
        CHECK(n.cli({"GET", "k"}) == "3");
      },
      old, next, address);
}

TEST_CASE(
    "while an address leads to a replica, reads go on, writes wait, and the topology says so") {
  RedisServer old, next;
  FaultyLink address(old.port());
  with_client(
      settings_for(address.port()),
      [](Client& client, RedisServer& o, RedisServer& n, FaultyLink& a) -> awaitable<void> {
        auto first = co_await client.command(Command("SET", "k", "1"), CallOptions().within(20s));
        REQUIRE(first);
        CHECK(client.topology().nodes[0].is_primary);
        o.cli({"REPLICAOF", "127.0.0.1", std::to_string(n.port())});
        auto connects = client.counters().connects;
        auto why = co_await refusal(client, Command("SET", "k", "2"));
        CHECK(why.code == Errc::unavailable);
        CHECK(why.what.starts_with("READONLY"));
        auto node = client.topology().nodes[0];
        CHECK(node.is_connected);
        CHECK(!node.is_primary);
        CHECK(!client.has_primary());
        CHECK(node.problem.contains("READONLY"));
        for (int i = 0; i < 20; ++i) {  // nobody who reads is disturbed by those who cannot write
          auto read = co_await client.command(Command("GET", "k"), CallOptions().within(20s));
          CHECK(read);
        }
        CHECK(client.counters().connects == connects);

        auto move = [](FaultyLink& x, RedisServer& r) -> Async<> {
          x.lead_to(r.port());
          co_return ok;
        };
        auto [written, moved] = co_await (
            client.ask(Command("SET", "k", "3"), CallOptions().within(20s)) && move(a, n));
        REQUIRE_MESSAGE(written, (written ? "" : written.error().what));
        CHECK(n.cli({"GET", "k"}) == "3");
        CHECK(client.has_primary());
        CHECK(client.topology().nodes[0].is_primary);
        CHECK(client.topology().nodes[0].problem == "");

        // The same server may be promoted again, too.
        n.cli({"REPLICAOF", "127.0.0.1", std::to_string(o.port())});
        auto promote = [](RedisServer& r) -> Async<> {
          co_await sleep_for(100ms);
          r.cli({"REPLICAOF", "NO", "ONE"});
          co_return ok;
        };
        auto [again, promoted] = co_await (
            client.ask(Command("SET", "k", "4"), CallOptions().within(20s)) && promote(n));
        CHECK(again);
        co_await eventually(
            20s, "it is known to be the primary",
            [](Client& c) { return c.topology().nodes[0].is_primary; }, client);
      },
      old, next, address);
}

TEST_CASE("a command that blocks holds up nobody, and gives its connection back") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        auto push = [](Client& c) -> Async<> {
          co_await eventually(10s, "the reader waits", [](Client&) { return true; }, c);
          auto pushed = co_await c.command(Command("RPUSH", "queue", "job"));
          REQUIRE(pushed);
          co_return ok;
        };
        for (int round = 0; round < 3; ++round) {
          auto [popped, pushed] =
              co_await (client.blocking(Command("BLPOP", "queue", 20), CallOptions().within(30s)) &&
                        push(client));
          REQUIRE(popped);
          CHECK(to_string(*popped) == "[\"queue\", \"job\"]");
        }
        CHECK(s.info("connected_clients") == "3");  // the shared one, the blocking one, this one

        auto late =
            co_await client.blocking(Command("BLPOP", "queue", 20), CallOptions().within(50ms));
        REQUIRE(!late);
        CHECK(late.error().code == Errc::unknown_outcome);
        // Nobody waits at the queue any more, so the next job is not lost on the one who left.
        co_await eventually(
            10s, "its connection is closed",
            [](RedisServer& r) { return r.info("blocked_clients") == "0"; }, s);
      },
      server);
}

TEST_CASE("a durable write says how many replicas have it") {
  RedisServer primary;
  RedisServer replica({.replica_of = &primary});
  with_client(
      settings_for(primary),
      [](Client& client, RedisServer& p, RedisServer& r) -> awaitable<void> {
        co_await eventually(
            20s, "the replica is in sync",
            [](RedisServer& s) { return s.info("master_link_status") == "up"; }, r);
        auto options = CallOptions().within(20s);
        auto written = co_await client.durable(Command("SET", "a", "1"), 1, options);
        REQUIRE(written);
        CHECK(written->replicas == 1);
        CHECK(r.cli({"GET", "a"}) == "1");

        auto before = Clock::now();
        auto hopeless = CallOptions().within(300ms);
        auto short_of = co_await client.durable(Command("SET", "a", "2"), 2, hopeless);
        REQUIRE(short_of);
        CHECK(short_of->replicas == 1);
        CHECK(Clock::now() - before < 300ms + slack);

        auto refused = co_await client.durable(Command("LPUSH", "a", "x"), 1, options);
        REQUIRE(!refused);
        CHECK(refused.error().what.starts_with("WRONGTYPE"));

        r.pause();
        auto alone =
            co_await client.durable(Command("SET", "a", "3"), 1, CallOptions().within(300ms));
        REQUIRE(alone);
        CHECK(alone->replicas == 0);
        CHECK(p.cli({"GET", "a"}) == "3");
        r.resume();
      },
      primary, replica);
}

TEST_CASE("durable writes that come together share one WAIT") {
  RedisServer primary;
  RedisServer replica({.replica_of = &primary});
  with_client(
      settings_for(primary),
      [](Client& client, RedisServer& p, RedisServer& r) -> awaitable<void> {
        co_await eventually(
            20s, "the replica is in sync",
            [](RedisServer& s) { return s.info("master_link_status") == "up"; }, r);
        auto writer = [](Client& c, int i) -> Async<> {
          for (int n = 0; n < 20; ++n) {
            auto written = co_await c.durable(Command("SET", fmt::format("k{}", i), n), 1,
                                              CallOptions().within(20s));
            REQUIRE(written);
            CHECK(written->replicas == 1);
          }
          co_return ok;
        };
        TaskGroup writers(client.executor());
        for (int i = 0; i < 64; ++i) writers.start("writer", writer(client, i));
        co_await writers.join();
        auto stats = p.cli({"INFO", "commandstats"});
        auto at = stats.find("cmdstat_wait:calls=");
        REQUIRE(at != stats.npos);
        CHECK(std::stoi(stats.substr(at + 19)) < 200);  // for 1280 writes
      },
      primary, replica);
}

TEST_CASE("a thousand connections made and closed leave no descriptor behind") {
  RedisServer server;
  run([](RedisServer& s) -> awaitable<void> {
    auto once = [](Client& client) -> awaitable<void> {
      auto pong = co_await client.command(Command("PING"), CallOptions().within(20s));
      REQUIRE(pong);
    };
    co_await run_with_client(settings_for(s), once);
    auto before = open_descriptors();
    for (int i = 0; i < 1000; ++i) co_await run_with_client(settings_for(s), once);
    CHECK(open_descriptors() == before);
    co_await eventually(
        20s, "the server has seen all of them leave",
        [](RedisServer& r) { return r.info("connected_clients") == "1"; }, s);
  }(server));
}

TEST_CASE("a client that is closed with calls under way ends each of them") {
  RedisServer server;
  run([](RedisServer& s) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto client = Client::create(executor, settings_for(s));
    REQUIRE(client);
    REQUIRE(co_await (*client)->ready(Clock::now() + 10s));
    s.pause();
    TaskGroup callers(executor);
    int ended = 0;
    auto call = [](Client& c, int& count) -> Async<> {
      auto reply = co_await c.command(Command("PING"), CallOptions().within(1h));
      CHECK(!reply);
      ++count;
      auto late = co_await c.command(Command("PING"), CallOptions().within(1h));
      REQUIRE(!late);
      CHECK(late.error().code == Errc::cancelled);
      co_return ok;
    };
    for (int i = 0; i < 20; ++i) callers.start("caller", call(**client, ended));
    co_await eventually(
        10s, "all are under way", [](auto& c) { return (*c)->counters().pending >= 20; }, client);
    co_await (*client)->close();
    co_await callers.join();
    CHECK(ended == 20);
    s.resume();
  }(server));
}

TEST_CASE("what the client does can be scraped") {
  RedisServer server;
  with_client(settings_for(server), [](Client& client) -> awaitable<void> {
    Metrics metrics;
    auto published = client.publish(metrics);
    auto refused = co_await client.command(Command("NOSUCHCOMMAND"));
    CHECK(!refused);
    for (int i = 0; i < 3; ++i) {
      auto pong = co_await client.command(Command("PING"));
      REQUIRE(pong);
    }
    auto text = metrics.exposition();
    for (const char* line :
         {"warren_redis_calls_total{outcome=\"answered\"} 3", "{outcome=\"refused\"} 1",
          "warren_redis_connects_total{outcome=\"ok\"} 1", "warren_redis_pending_calls 0",
          "warren_redis_roundtrip_seconds_count 4"}) {
      CAPTURE(line);
      CAPTURE(text);
      CHECK(text.find(line) != text.npos);
    }
    text = metrics.exposition();
    CHECK(text.find("warren_redis_roundtrip_seconds_count 4") != text.npos);
  });
}

TEST_CASE("user, password, database and unix socket are used as given") {
  RedisServer server(
      {.password = "pw", .users = {"alice on >secret ~* &* +@all"}, .unix_socket = true});
  auto settings = settings_for(server);
  settings.addresses = {{"", 0, server.unix_path()}};
  settings.credentials = {"alice", "secret"};
  settings.database = 3;
  with_client(
      settings,
      [](Client& client, RedisServer& s) -> awaitable<void> {
        REQUIRE(co_await client.command(Command("SET", "a", "1")));
        auto who = co_await client.command(Command("ACL", "WHOAMI"));
        REQUIRE(who);
        CHECK(who->text == "alice");
        CHECK(s.info("db3").starts_with("keys=1"));
        CHECK(s.cli({"CLIENT", "LIST"}).find("name=warren") != std::string::npos);
      },
      server);
}

TEST_CASE("what will not mend by waiting is told at once: a wrong password, a stranger's port") {
  RedisServer server({.password = "right"});
  auto settings = settings_for(server);
  settings.credentials.password = "wrong";
  with_client(settings, [](Client& client) -> awaitable<void> {
    auto before = Clock::now();
    auto reply = co_await client.command(Command("PING"), CallOptions().within(1h));
    REQUIRE(!reply);
    CHECK(reply.error().code == Errc::denied);
    CHECK(reply.error().what.find("wrong") == std::string::npos);  // no secret in an error
    CHECK(Clock::now() - before < 30s);
  });
  settings.credentials.password = "";
  with_client(settings, [](Client& client) -> awaitable<void> {
    auto reply = co_await client.command(Command("PING"), CallOptions().within(1h));
    REQUIRE(!reply);
    CHECK(reply.error().code == Errc::denied);
    CHECK(reply.error().what.find("REDIS_PASSWORD") != std::string::npos);
  });

  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    asio::ip::tcp::acceptor mail(executor, {asio::ip::address_v4::loopback(), 0});
    TaskGroup stranger(executor);
    auto greet = [](asio::ip::tcp::acceptor& door) -> Async<> {
      for (;;) {
        auto guest = co_await door.async_accept(asio::use_awaitable);
        co_await asio::async_write(guest, asio::buffer("220 mail.example ESMTP\r\n", 24),
                                   asio::use_awaitable);
      }
    };
    stranger.start("mail server", greet(mail));
    auto ask = [](Client& client) -> awaitable<void> {
      auto reply = co_await client.command(Command("PING"), CallOptions().within(1h));
      REQUIRE(!reply);
      CHECK(reply.error().code == Errc::protocol);
      CHECK(reply.error().what.find("220 mail.example") != std::string::npos);
    };
    co_await run_with_client(settings_for(mail.local_endpoint().port()), ask);
    stranger.stop();
    co_await stranger.join();
  }());
}

TEST_CASE("over TLS everything is the same") {
  Certificates certificates;
  RedisServer server({.tls = &certificates});
  auto settings = settings_for(server.tls_port());
  settings.tls.enabled = true;
  settings.tls.ca_file = certificates.ca();
  settings.tls.cert_file = certificates.client().certificate;
  settings.tls.key_file = certificates.client().key;
  with_client(settings, [](Client& client) -> awaitable<void> {
    TaskGroup callers(client.executor());
    for (int i = 0; i < 100; ++i)
      callers.start("caller", increment(client, fmt::format("key:{}", i), 20));
    co_await callers.join();
    std::string large(3'000'000, 'x');
    REQUIRE(co_await client.command(Command("SET", "large", large), CallOptions().within(30s)));
    auto back = co_await client.command(Command("GET", "large"), CallOptions().within(30s));
    REQUIRE(back);
    CHECK(back->text == large);
  });
  settings.tls.ca_file = "/etc/ssl/certs/ca-certificates.crt";
  with_client(settings, [](Client& client) -> awaitable<void> {
    auto reply = co_await client.command(Command("PING"), CallOptions().within(1h));
    REQUIRE(!reply);
    CHECK(reply.error().code == Errc::denied);
    CHECK(reply.error().what.find("REDIS_TLS_CA") != std::string::npos);
  });
}
