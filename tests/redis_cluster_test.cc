// Slots that move, and servers that die, under callers that do not notice.
#include "proof/testkit/faulty_link.h"
#include "proof/testkit/ports.h"
#include "redis/resp/refusal.h"
#include "redis/subscriber.h"
#include "with_client.h"

using namespace warren;
using namespace warren::redis;

namespace {

struct Load {
  bool stop = false;
  std::size_t done = 0;
  std::vector<std::string> errors;
};

// Every value read must be the last one written by this very caller. The first error ends it all.
Async<> write_and_read(Client& client, Load& load, std::string key) {
  for (int n = 0; !load.stop && load.errors.empty(); ++n) {
    auto set = co_await client.command(Command("SET", key, n), CallOptions().within(20s));
    if (!set) {
      load.errors.push_back(set.error().what);
      co_return ok;
    }
    auto get = co_await client.command(Command("GET", key), CallOptions().within(20s));
    if (!get)
      load.errors.push_back(get.error().what);
    else if (get->text != std::to_string(n))
      load.errors.push_back(fmt::format("{} is {} instead of {}", key, get->text, n));
    ++load.done;
  }
  co_return ok;
}

Result<> has_done(Load& load, std::size_t& count) {
  if (load.done < count && load.errors.empty())
    return fail(Errc::unavailable, "{} of {}", load.done, count);
  return ok;
}

awaitable<void> more(Load& load, std::size_t count) {
  std::size_t goal = load.done + count;
  co_await eventually(60s, "callers go on", has_done, load, goal);
}

}  // namespace

TEST_CASE("a slot moves under load, key by key, and no caller sees an error or an old value") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        Load load;
        TaskGroup callers(client.executor());
        for (int i = 0; i < 64; ++i)
          callers.start("caller", write_and_read(client, load, fmt::format("{{hot}}:{}", i)));
        co_await more(load, 1000);
        int slot = slot_of("hot");
        auto& from = c.owner(slot);
        auto& to = &from == &c.node(0) ? c.node(1) : c.node(0);
        for (int round = 0; round < 2; ++round) {
          auto& source = round == 0 ? from : to;
          auto& target = round == 0 ? to : from;
          c.begin_migration(slot, source, target);
          co_await more(load, 500);
          while (c.move_keys(slot, source, target, 7) > 0) co_await more(load, 100);
          c.end_migration(slot, source, target);
          co_await more(load, 500);
        }
        load.stop = true;
        co_await callers.join();
        CHECK_MESSAGE(load.errors.empty(), fmt::format("{}", fmt::join(load.errors, "\n")));
      },
      cluster);
}

TEST_CASE("commands find their servers, also in one batch; keyless ones are told where to go") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        std::vector<Command> writes, reads;
        for (int i = 0; i < 300; ++i) {
          writes.emplace_back("SET", fmt::format("key:{}", i), i);
          reads.emplace_back("GET", fmt::format("key:{}", i));
        }
        auto written = co_await client.batch(std::move(writes), CallOptions().within(20s));
        for (auto& result : written) REQUIRE(result);
        auto read = co_await client.batch(std::move(reads), CallOptions().within(20s));
        for (std::size_t i = 0; i < read.size(); ++i) {
          REQUIRE(read[i]);
          CHECK(read[i]->text == std::to_string(i));
        }
        for (int i = 0; i < 3; ++i) CHECK(c.node(std::size_t(i)).cli({"DBSIZE"}) != "0");

        auto lost = co_await client.command(Command("DBSIZE"));
        REQUIRE(!lost);
        CHECK(lost.error().code == Errc::invalid);
        auto there = co_await client.command(Command("DBSIZE"), CallOptions().where("key:1"));
        CHECK(there);
        auto anywhere = co_await client.command(Command("PING"), CallOptions().on_any_node());
        CHECK(anywhere);

        std::vector<Command> together;
        together.emplace_back("SET", "{t}a", "1");
        together.emplace_back("INCR", "{t}a");
        auto reply = co_await client.transaction(std::move(together));
        REQUIRE(reply);
        CHECK(to_string(*reply) == "[OK, 2]");
        std::vector<Command> apart;
        apart.emplace_back("SET", "a", "1");
        apart.emplace_back("SET", "b", "1");
        auto refused = co_await client.transaction(std::move(apart), CallOptions().within(10s));
        CHECK(!refused);
        auto topology = client.topology();
        CHECK(std::ranges::count(topology.nodes, true, &Topology::Node::is_primary) == 3);
        CHECK(topology.epoch > 0);
      },
      cluster);
}

TEST_CASE("a slot that has moved costs one redirection, not one for every command") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        auto options = CallOptions().within(20s);
        int slot = slot_of("m");
        auto& from = c.owner(slot);
        auto& to = &from == &c.node(0) ? c.node(1) : c.node(0);
        auto first = co_await client.command(Command("SET", "{m}", "0"), options);
        REQUIRE(first);
        c.migrate_slot(slot, from, to);
        auto refused = client.counters().calls.refused;
        for (int i = 0; i < 100; ++i) {
          auto count = co_await client.command(Command("INCR", "{m}"), options);
          REQUIRE(count);
        }
        CHECK(client.counters().calls.refused - refused <= 2);
      },
      cluster);
}

TEST_CASE("a transaction and a durable write follow a slot that has moved") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        auto first =
            co_await client.command(Command("SET", "{m}a", "1"), CallOptions().within(20s));
        REQUIRE(first);
        int slot = slot_of("m");
        auto& from = c.owner(slot);
        auto& to = &from == &c.node(0) ? c.node(1) : c.node(0);
        c.migrate_slot(slot, from, to);
        std::vector<Command> together;
        together.emplace_back("INCR", "{m}a");
        together.emplace_back("INCR", "{m}a");
        auto reply = co_await client.transaction(std::move(together), CallOptions().within(20s));
        REQUIRE(reply);
        CHECK(to_string(*reply) == "[2, 3]");
        c.migrate_slot(slot, to, from);
        auto durable =
            co_await client.durable(Command("INCR", "{m}a"), 1, CallOptions().within(20s));
        REQUIRE(durable);
        CHECK(durable->reply.number == 4);
        CHECK(durable->replicas == 1);
      },
      cluster);
}

TEST_CASE("when a primary is killed its calls go to the replica that takes over") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        int slot = slot_of("key");
        auto first = co_await client.command(Command("SET", "key", "1"), CallOptions().within(20s));
        REQUIRE(first);
        auto epoch = client.topology().epoch;
        auto& old = c.owner(slot);
        old.kill();
        auto set = [](Client& cl) -> Async<Reply> {
          return cl.ask(Command("SET", "key", "2"), CallOptions().within(5s));
        };
        co_await eventually(60s, "writes flow again", set, client);
        auto& next = c.owner(slot);
        CHECK(&next != &old);
        CHECK(next.cli({"GET", "key"}) == "2");
        co_await eventually(
            30s, "the new epoch is known",
            [](Client& cl, auto& e) { return cl.topology().epoch > e; }, client, epoch);
      },
      cluster);
}

TEST_CASE("sharded subscriptions follow their slot, and tell that something may be missing") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        Subscriber news(client);
        auto body = [](Client& cl, Subscriber& n, RedisCluster& rc) -> awaitable<void> {
          n.ssubscribe("{s}news");
          n.subscribe("plain");
          auto settled = co_await n.settled(Clock::now() + 20s);
          REQUIRE(settled);
          auto publish = [](Client& x, std::string text) -> Async<Reply> {
            return x.ask(Command("SPUBLISH", "{s}news", text), CallOptions().within(20s));
          };
          auto sent = co_await publish(cl, "one");
          REQUIRE(sent);
          CHECK(sent->number == 1);
          auto one = co_await n.next(Clock::now() + 20s);
          REQUIRE(one);
          CHECK(one->payload == "one");

          int slot = slot_of("s");
          auto& from = rc.owner(slot);
          auto& to = &from == &rc.node(0) ? rc.node(1) : rc.node(0);
          rc.migrate_slot(slot, from, to);
          auto gap = co_await n.next(Clock::now() + 30s);
          REQUIRE(gap);
          CHECK(gap->kind == Message::Kind::gap);
          auto again = co_await publish(cl, "two");
          REQUIRE(again);
          auto two = co_await n.next(Clock::now() + 20s);
          REQUIRE(two);
          CHECK(two->payload == "two");
          auto plain = co_await cl.command(Command("PUBLISH", "plain", "three"),
                                           CallOptions().on_any_node());
          REQUIRE(plain);
          auto three = co_await n.next(Clock::now() + 20s);
          REQUIRE(three);
          CHECK(three->channel == "plain");
        };
        std::exception_ptr thrown;
        try {
          co_await body(client, news, c);
        } catch (...) {
          thrown = std::current_exception();
        }
        co_await news.close();
        if (thrown) std::rethrow_exception(thrown);
      },
      cluster);
}

TEST_CASE("sharded subscriptions that are taken back leave no connection behind") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        Subscriber news(client);
        for (int i = 0; i < 50; ++i) news.ssubscribe(fmt::format("c{}", i));
        auto settled = co_await news.settled(Clock::now() + 20s);
        CHECK(settled);
        auto listeners = [](RedisCluster& rc) {
          std::string all;
          for (std::size_t i = 0; i < 3; ++i)
            all += rc.node(i).cli({"CLIENT", "LIST", "TYPE", "pubsub"});
          return all;
        };
        CHECK(listeners(c) != "");
        for (int i = 0; i < 50; ++i) news.sunsubscribe(fmt::format("c{}", i));
        settled = co_await news.settled(Clock::now() + 20s);
        CHECK(settled);
        co_await eventually(
            10s, "the connections end", [](RedisCluster& rc, auto& f) { return f(rc) == ""; }, c,
            listeners);
        co_await news.close();
      },
      cluster);
}

TEST_CASE("a subscription leaves a server that does not know yet that it was replaced") {
  // Two that cannot hear each other: a partition.
  RedisServer first({.cluster = true}), second({.cluster = true});
  first.cli({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
  auto settings = settings_for(first);
  settings.mode = Mode::cluster;
  settings.addresses.push_back({"127.0.0.1", second.port(), ""});
  settings.ping_interval = 50ms;
  with_client(
      settings,
      [](Client& client, RedisServer& old, RedisServer& next) -> awaitable<void> {
        Subscriber news(client);
        news.ssubscribe("a");
        auto settled = co_await news.settled(Clock::now() + 20s);
        CHECK_MESSAGE(settled, (settled ? "" : settled.error().what));
        next.cli({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
        for (int i = 0; i < 9; ++i) next.cli({"CLUSTER", "BUMPEPOCH"});
        auto words = fmt::format("MOVED {} 127.0.0.1:{}", slot_of("a"), next.port());
        auto moved = error_of({Reply::Kind::error, 0, std::move(words), {}});
        client.on_moved(moved);
        auto gap = co_await news.next(Clock::now() + 20s);
        CHECK(gap);
        CHECK((gap && gap->kind == Message::Kind::gap));
        CHECK(old.cli({"SPUBLISH", "a", "1"}) == "0");
        CHECK(next.cli({"SPUBLISH", "a", "2"}) == "1");
        co_await news.close();
      },
      first, second);
}

TEST_CASE("a server that is not part of a cluster says so") {
  RedisServer server;
  auto settings = settings_for(server);
  settings.mode = Mode::cluster;
  with_client(settings, [](Client& client) -> awaitable<void> {
    auto reply = co_await client.command(Command("GET", "a"), CallOptions().within(2s));
    REQUIRE(!reply);
    CHECK(reply.error().what.find("not part of a cluster") != std::string::npos);
  });
  RedisCluster cluster;
  auto single = settings_for(cluster.node(0));
  with_client(single, [](Client& client) -> awaitable<void> {
    std::vector<Command> many;
    for (int i = 0; i < 20; ++i) many.emplace_back("GET", fmt::format("k{}", i));
    auto results = co_await client.batch(std::move(many));
    bool told = std::ranges::any_of(results, [](auto& result) {
      return !result && result.error().what.find("REDIS_MODE=cluster") != std::string::npos;
    });
    CHECK(told);
  });
}

TEST_CASE("servers that refuse at once do not hide the one that answers a little later") {
  RedisCluster cluster;
  Port dead[3];
  auto settings = settings_for(cluster);
  settings.addresses.clear();
  for (auto& port : dead) settings.addresses.push_back({"127.0.0.1", port.number(), ""});
  FaultyLink link(cluster.node(0).port());
  link.delay(Direction::to_client, 5ms);
  settings.addresses.push_back({"127.0.0.1", link.port(), ""});
  with_client(settings, [](Client& client) -> awaitable<void> {
    auto reply = co_await client.command(Command("GET", "a"), CallOptions().within(20s));
    CHECK(reply);
  });
}

TEST_CASE("a command with two keys of a slot that moves waits until it has moved") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        int slot = slot_of("m");
        auto& from = c.owner(slot);
        auto& to = &from == &c.node(0) ? c.node(1) : c.node(0);
        c.begin_migration(slot, from, to);
        auto end = [](Client& cl, RedisCluster& rc, int number, RedisServer& a,
                      RedisServer& b) -> Async<> {
          co_await eventually(
              20s, "it was refused more often than there are redirections",
              [](Client& x) { return x.counters().calls.refused > 12; }, cl);
          rc.end_migration(number, a, b);
          co_return ok;
        };
        auto options = CallOptions().within(30s);
        using namespace asio::experimental::awaitable_operators;
        auto [written, ended] =
            co_await (client.ask(Command("MSET", "{m}new1", "1", "{m}new2", "2"), options) &&
                      end(client, c, slot, from, to));
        CHECK(written);
      },
      cluster);
}

TEST_CASE("calls that wait for a slot map are bounded like all others") {
  Port nobody;
  auto settings = settings_for(nobody.number());
  settings.mode = Mode::cluster;
  settings.max_calls = 10;
  with_client(settings, [](Client& client) -> awaitable<void> {
    std::vector<Command> many;
    for (int i = 0; i < 1000; ++i) many.emplace_back("GET", fmt::format("k{}", i));
    auto results = co_await client.batch(std::move(many), CallOptions().within(300ms));
    auto refused = std::ranges::count_if(
        results, [](auto& result) { return !result && result.error().code == Errc::overloaded; });
    CHECK(refused == 990);
  });
}

TEST_CASE("a caller who tries again while the client closes is told so") {
  RedisServer silent;
  silent.pause();
  auto settings = settings_for(silent.port());
  settings.mode = Mode::cluster;
  run([](Settings s) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto client = Client::create(executor, std::move(s));
    REQUIRE(client);
    TaskGroup callers(executor);
    auto call = [](Client& c, int posts) -> Async<> {
      auto reply = co_await c.command(Command("GET", "a"), CallOptions().within(1h));
      for (int i = 0; i < posts; ++i) co_await asio::post(c.executor(), asio::use_awaitable);
      reply = co_await c.command(Command("GET", "a"), CallOptions().within(1h));
      REQUIRE(!reply);
      CHECK(reply.error().code == Errc::cancelled);
      co_return ok;
    };
    for (int i = 0; i < 60; ++i) callers.start("caller", call(**client, i));
    co_await eventually(
        20s, "all wait", [](auto& c) { return (*c)->counters().pending == 60; }, client);
    co_await (*client)->close();
    co_await callers.join();
  }(settings));
}

TEST_CASE("a cluster that was made anew, with a lower epoch, is believed again") {
  RedisServer old({.cluster = true}), next({.cluster = true});
  old.cli({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
  for (int i = 0; i < 9; ++i) old.cli({"CLUSTER", "BUMPEPOCH"});
  auto settings = settings_for(old);
  settings.mode = Mode::cluster;
  settings.addresses.push_back({"127.0.0.1", next.port(), ""});
  with_client(
      settings,
      [](Client& client, RedisServer& before, RedisServer& after) -> awaitable<void> {
        auto first = co_await client.command(Command("GET", "a"), CallOptions().within(20s));
        REQUIRE(first);
        after.cli({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
        before.kill();
        auto reply =
            co_await client.command(Command("GET", "a"), CallOptions().within(40s).idempotent());
        CHECK(reply);
      },
      old, next);
}
