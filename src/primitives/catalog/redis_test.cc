// What only the catalog's engine on Redis does.
#include "primitives/catalog/redis.h"

#include <doctest/doctest.h>

#include <map>

#include "primitives/catalog/scripts.h"
#include "proof/sim/model_redis.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"

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

// A server whose clock the test sets, with the real scripts.
class Model {
 public:
  redis::Reply node(sim::Words words) { return run(scripts::catalog_node, false, words); }
  redis::Reply claim(std::string key, std::string session) {
    return run(scripts::catalog_claim, false, {"claim", std::move(key), std::move(session)});
  }
  redis::Reply rows(sim::Words words) { return run(scripts::catalog_rows, true, words); }
  std::size_t offered() {
    auto reply = run(scripts::catalog_look, true, {"claimable", "", "", "10"});
    return reply.items.size() / 2;
  }

  std::int64_t now_us = 2'000'000;

 private:
  redis::Reply run(const redis::Script& script, bool has_places, sim::Words words) {
    auto places = has_places ? scripts::catalog_places.source() : "";
    redis::Script whole(script.name(), scripts::catalog.source() + places + script.source());
    words.insert(words.begin(), "0");  // the topology's epoch
    sim::Words keys{"{c}:rows", "{c}:changes", "{c}:nodes", "{c}:places"};
    auto reply = server_.run(sim::words_of(whole, std::move(keys), std::move(words)), now_us);
    REQUIRE_MESSAGE(!reply.is_error(), reply.text);
    return reply;
  }

  sim::ModelRedis server_;
};

constexpr auto alice = "alice/000000000001";

}  // namespace

TEST_CASE("no epoch of a row is given again, when it was removed and the server's clock set back") {
  Model model;
  model.node({"join", "", alice, "10000", "{}"});
  model.rows({"add", "", "", "a", "0", ""});
  auto first = model.claim("a", alice);
  REQUIRE(first.items.size() == 3);
  CHECK(first.items[2].text == "2000000");
  model.rows({"remove", "", "", "a"});
  model.now_us = 1'000'000;
  model.rows({"add", "", "", "a", "0", ""});
  auto second = model.claim("a", alice);
  REQUIRE(second.items.size() == 3);
  CHECK(second.items[2].text == "2000001");
}

TEST_CASE("what the catalog keeps of itself is no row, however it is called") {
  Model model;
  model.node({"join", "", alice, "10000", "{}"});
  model.rows({"add", "", "", "a", "0", ""});
  for (auto name : {std::string(" head"), " " + std::string(alice), std::string()}) {
    CAPTURE(name);
    CHECK(model.claim(name, alice).items.at(0).number == -1);
    CHECK(model.rows({"change", name, "", "rank", "-", "-", "1", ""}).number == 0);
    CHECK(model.rows({"remove", "", "", name}).number == 0);
  }
  CHECK(model.offered() == 1);
  CHECK(model.claim("a", alice).items.at(0).number == 1);
  CHECK(model.offered() == 0);
}

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
    co_await follower.look(*reader, 100ms);  // it has waited, and so it listens
    CHECK(follower.rows == Specs{{"a", "lost"}, {"b", "old"}});

    where.kill();
    where.restart();
    // Enough changes that its own number exists in this history, too.
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

}  // namespace warren
