// What is said of a command that ran, when its answer was lost and trying again is refused.
#include "with_loading.h"
#include "with_lost_answer.h"

using namespace warren;
using namespace warren::redis;

namespace {

CallOptions short_time() { return CallOptions().within(1s).idempotent(); }

std::vector<Command> refuse_writes() {
  std::vector<Command> orders;
  orders.emplace_back("CONFIG", "SET", "min-replicas-to-write", 9);
  return orders;
}

// An idempotent SET whose answer is lost, and that no server takes afterwards.
awaitable<void> lose_set(Client& client, RedisServer& server) {
  auto connects = client.counters().connects;
  auto set = client.ask(Command("SET", "k", "done"), short_time());
  auto lost = co_await lose_answer(client, server, "k", std::move(set), refuse_writes());
  REQUIRE(!lost);
  CAPTURE(lost.error().what);
  CHECK(lost.error().code == Errc::unknown_outcome);
  CHECK(lost.error().what.contains("NOREPLICAS"));
  CHECK(server.cli({"GET", "k"}) == "done");
  CHECK(client.counters().connects > connects);

  auto never = co_await refusal(client, Command("SET", "k", "never"), short_time());
  CHECK(never.code == Errc::unavailable);  // of this one it is certain
  server.cli({"CONFIG", "SET", "min-replicas-to-write", "0"});
}

}  // namespace

TEST_CASE("what ran is not said to have been refused: a single server") {
  RedisServer server;
  with_client(settings_for(server), lose_set, server);
}

TEST_CASE("what ran is not said to have been refused by a server that starts again and loads") {
  using namespace asio::experimental::awaitable_operators;
  RedisServer server;
  fill(server);
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        std::vector<Command> next;
        next.emplace_back("SHUTDOWN", "SAVE");
        std::unique_ptr<LoadingServer> loading;
        auto start_again = [](RedisServer& old, std::unique_ptr<LoadingServer>& made) -> Async<> {
          auto has_ended = [](RedisServer& x) { return !x.alive(); };
          co_await eventually(20s, "the server has ended", has_ended, old);
          made = std::make_unique<LoadingServer>(old);
          co_return ok;
        };
        auto set = client.ask(Command("SET", "k", "done"), CallOptions().within(8s).idempotent());
        auto losing = lose_answer(client, s, "k", std::move(set), std::move(next));
        auto [lost, again] = co_await (std::move(losing) && start_again(s, loading));
        REQUIRE(again);
        REQUIRE(!lost);
        CAPTURE(lost.error().what);
        CHECK(lost.error().code == Errc::unknown_outcome);
        CHECK(loading->refusals() > 50);  // every 20 ms

        auto never = co_await refusal(client, Command("SET", "k", "never"), short_time());
        CHECK(never.code == Errc::unavailable);  // of this one it is certain
        CHECK(never.what.contains("LOADING"));
        loading->finish();
        CHECK(s.cli({"GET", "k"}) == "done");
      },
      server);
}

TEST_CASE("what ran is not said to have been refused: the primary of a Sentinel") {
  SentinelTrio trio;
  with_client(settings_for(trio), lose_set, trio.primary());
}

TEST_CASE("what ran is not said to have been refused: a server of a cluster") {
  RedisCluster cluster;
  with_client(settings_for(cluster), lose_set, cluster.owner(slot_of("k")));
}

TEST_CASE("what ran is not said to have been refused when two servers send it to each other") {
  RedisCluster cluster;
  with_client(
      settings_for(cluster),
      [](Client& client, RedisCluster& c) -> awaitable<void> {
        int slot = slot_of("k");
        auto& from = c.owner(slot);
        auto& to = &from == &c.node(0) ? c.node(1) : c.node(0);
        from.cli({"SET", "k", "1"});
        std::vector<Command> next;
        next.emplace_back("CLUSTER", "SETSLOT", slot, "NODE", c.id(to));  // which the other denies
        auto remove = client.ask(Command("DEL", "k"), short_time());
        auto lost = co_await lose_answer(client, from, "k", std::move(remove), std::move(next));
        REQUIRE(!lost);
        CAPTURE(lost.error().what);
        CHECK(lost.error().code == Errc::unknown_outcome);
        CHECK(lost.error().what.contains("MOVED"));
      },
      cluster);
}

TEST_CASE("a script that ran is not said to have been refused when its source is sent") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        Script put("put", "return redis.call('SET', KEYS[1], ARGV[1])");
        std::vector<std::string> keys{"k"}, args{"before"};
        auto known = co_await client.run(put, keys, args);
        REQUIRE(known);
        args = {"done"};
        auto next = refuse_writes();
        next.emplace_back("SCRIPT", "FLUSH");
        auto run = client.run(put, keys, args, short_time());
        auto lost = co_await lose_answer(client, s, "k", std::move(run), std::move(next));
        REQUIRE(!lost);
        CAPTURE(lost.error().what);
        CHECK(lost.error().code == Errc::unknown_outcome);
        CHECK(s.cli({"GET", "k"}) == "done");
      },
      server);
}

TEST_CASE("what ran is not said to have been refused for want of memory or of permission") {
  for (auto words : {std::vector<std::string>{"CONFIG", "SET", "maxmemory", "1"},
                     std::vector<std::string>{"ACL", "SETUSER", "default", "-set"}}) {
    CAPTURE(words[0]);
    RedisServer server;
    with_client(
        settings_for(server),
        [](Client& client, RedisServer& s, std::vector<std::string>& order) -> awaitable<void> {
          std::vector<Command> next;
          next.emplace_back(std::span<const std::string>(order));
          auto set = client.ask(Command("SET", "k", "done"), short_time());
          auto lost = co_await lose_answer(client, s, "k", std::move(set), std::move(next));
          REQUIRE(!lost);
          CAPTURE(lost.error().what);
          CHECK(lost.error().code == Errc::unknown_outcome);
          CHECK(s.cli({"GET", "k"}) == "done");
        },
        server, words);
  }
}

TEST_CASE("an answer to the command itself is its answer, also at the second attempt") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        std::vector<Command> next;
        next.emplace_back("SET", "k", "a text");
        auto add = client.ask(Command("SADD", "k", "member"), short_time());
        auto answered = co_await lose_answer(client, s, "k", std::move(add), std::move(next));
        REQUIRE(!answered);
        CHECK(answered.error().code == Errc::refused);
        CHECK(answered.error().what.starts_with("WRONGTYPE"));
      },
      server);
}

TEST_CASE("a server without memory says so at once, did nothing, and it passes") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](Client& client, RedisServer& s) -> awaitable<void> {
        s.cli({"CONFIG", "SET", "maxmemory", "1"});
        auto long_time = CallOptions().within(1h);
        auto began = Clock::now();
        auto check = [](const Error& error) {
          CAPTURE(error.what);
          CHECK(error.code == Errc::unavailable);
          CHECK(may_retry(error));
          CHECK(error.what.contains("OOM"));
        };
        auto set = co_await client.command(Command("SET", "k", "1"), long_time);
        REQUIRE(!set);
        check(set.error());
        Script put("put", "return redis.call('SET', KEYS[1], 1)");
        std::vector<std::string> keys{"k"};
        auto run = co_await client.run(put, keys, {}, long_time);
        REQUIRE(!run);
        check(run.error());
        std::vector<Command> commands;
        commands.emplace_back("SET", "k", "1");
        auto together = co_await client.transaction(std::move(commands), long_time);
        REQUIRE(!together);
        check(together.error());
        auto durable = co_await client.durable(Command("SET", "k", "1"), 0, long_time);
        REQUIRE(!durable);
        check(durable.error());
        CHECK(Clock::now() - began < 30s);
        CHECK(s.cli({"EXISTS", "k"}) == "0");
        s.cli({"CONFIG", "SET", "maxmemory", "0"});
        auto later = co_await client.command(Command("SET", "k", "1"), long_time);
        CHECK(later);
      },
      server);
}
