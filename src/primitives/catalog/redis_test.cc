// What is the catalog's engine on Redis alone.
#include "primitives/catalog/redis.h"

#include <doctest/doctest.h>

#include <map>

#include "proof/testkit/redis_server.h"
#include "proof/testkit/run.h"

namespace warren {
namespace {

using Specs = std::map<std::string, std::string>;

Clock::time_point soon() { return Clock::now() + 20s; }

std::unique_ptr<Catalog> open(const asio::any_io_executor& executor, const RedisServer& server) {
  redis::Settings settings;
  settings.addresses = {{"127.0.0.1", server.port(), ""}};
  settings.backoff_most = 100ms;
  auto catalog = RedisCatalog::open(executor, settings, "fleet");
  REQUIRE(catalog);
  return *std::move(catalog);
}

struct Follower {
  std::string position = {};
  Specs rows = {};

  awaitable<void> look(Catalog& catalog, Clock::duration wait) {
    auto changes = co_await catalog.changes(position, Clock::now() + wait, soon());
    REQUIRE(changes);
    position = changes->position;
    if (changes->is_everything) rows.clear();
    for (const auto& key : changes->removed) rows.erase(key);
    for (const auto& row : changes->rows) rows[row.key] = row.spec;
  }
};

awaitable<void> set_spec(Catalog& catalog, std::string key, std::string spec) {
  RowChange change{.spec = std::move(spec)};
  auto changed = co_await catalog.change(std::move(key), std::move(change), soon());
  REQUIRE(changed);
}

}  // namespace

TEST_CASE("who follows a server that came back with an older copy is told of what that lost") {
  RedisServer server;
  run([](RedisServer& where) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto writer = open(executor, where), reader = open(executor, where);
    std::vector<Row> some{{.key = "a", .spec = "old"}, {.key = "b", .spec = "old"}};
    auto added = co_await writer->add(std::move(some), soon());
    REQUIRE(added);
    where.cli({"SAVE"});
    co_await set_spec(*writer, "a", "lost");
    Follower follower;
    co_await follower.look(*reader, 100ms);
    co_await follower.look(*reader, 100ms);  // it has waited, and so listens
    CHECK(follower.rows == Specs{{"a", "lost"}, {"b", "old"}});

    where.kill();
    where.restart();
    // So many that its own number is one of this history, too.
    for (int i = 0; i < 5; ++i) co_await set_spec(*writer, "b", std::to_string(i));
    auto has_heard = [](Catalog& from, Follower& who) -> awaitable<bool> {
      co_await who.look(from, 100ms);
      co_return who.rows == Specs{{"a", "old"}, {"b", "4"}};
    };
    co_await eventually(30s, "the follower has what the server has", has_heard, *reader, follower);
    co_await writer->close();
    co_await reader->close();
  }(server));
}

TEST_CASE("who missed more removals than are remembered reads everything") {
  RedisServer server;
  run([](RedisServer& where) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto writer = open(executor, where), reader = open(executor, where);
    std::vector<Row> two{{.key = "a"}, {.key = "b"}};
    auto added = co_await writer->add(std::move(two), soon());
    REQUIRE(added);
    Follower follower;
    co_await follower.look(*reader, 100ms);
    co_await follower.look(*reader, 100ms);  // it has waited, and so listens
    REQUIRE(follower.rows == Specs{{"a", ""}, {"b", ""}});

    std::vector<Row> many;
    std::vector<std::string> keys{"a"};
    for (int i = 0; i < 10'000; ++i) keys.push_back(fmt::format("r{}", i));
    for (auto key = keys.begin() + 1; key != keys.end(); ++key) many.push_back({.key = *key});
    added = co_await writer->add(std::move(many), soon());
    REQUIRE(added);
    auto removed = co_await writer->remove(std::move(keys), soon());
    REQUIRE(removed);
    CHECK(*removed == 10'001);
    co_await follower.look(*reader, 0ms);
    CHECK(follower.rows == Specs{{"b", ""}});
    co_await writer->close();
    co_await reader->close();
  }(server));
}

}  // namespace warren
