// Mirrors in a cluster while their slot moves: some keys are at one server, some at another.
#include "with_mirrors.h"

using namespace warren;

namespace {

// The slot of all keys, and the two servers.
struct Move {
  explicit Move(RedisCluster& c)
      : cluster(c),
        slot(c.slot("{c1}:")),
        from(c.owner(slot)),
        to(&c.node(0) == &from ? c.node(1) : c.node(0)) {}
  void begin() { cluster.begin_migration(slot, from, to); }
  std::size_t keys(std::size_t most) { return cluster.move_keys(slot, from, to, most); }
  void end() { cluster.end_migration(slot, from, to); }

  RedisCluster& cluster;
  int slot;
  RedisServer& from;
  RedisServer& to;
};

awaitable<void> put_many(Mirror& mirror, int count) {
  for (int i = 0; i < count; ++i) {
    Batch batch;
    batch.push_back({node_type, std::to_string(i), std::to_string(i)});
    REQUIRE(mirror.post(std::move(batch)));
  }
  auto last = co_await put(mirror, stream_type, "end", "1");
  auto applied = co_await mirror.applied(last, Clock::now() + 20s);
  REQUIRE(applied);
}

void check_all(const Mirror& mirror, int count) {
  auto snapshot = mirror.read();
  CHECK(snapshot->table(node_type).size() == std::size_t(count));
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    auto* entity = snapshot->find(node_type, std::to_string(i));
    wrong += !entity || entity->value() != std::to_string(i);
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("a mirror that loads while its slot moves has the keys of both servers") {
  RedisCluster cluster;
  with_mirrors(
      {settings_for(cluster)}, mirror_terms(),
      [](Instances& all, RedisCluster& c) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        co_await put_many(alice, 200);
        Move move(c);
        move.begin();
        CHECK(move.keys(100) == 100);
        auto late = co_await start_instance(settings_for(c), mirror_terms());
        auto ready = co_await late->mirror->ready(Clock::now() + 20s);
        CHECK(ready);
        check_all(*late->mirror, 200);
        move.keys(1000);
        move.end();
        co_await put(alice, node_type, "200", "200");
        co_await eventually_seen(*late->mirror, node_type, "200", "200");
        check_all(*late->mirror, 201);
        CHECK(late->rewrites.empty());
        co_await stop_instance(*late);
      },
      cluster);
}

TEST_CASE("a mirror whose slot begins to move while it loads shows nothing before it has all") {
  RedisCluster cluster;
  with_mirrors(
      {settings_for(cluster)}, mirror_terms(),
      [](Instances& all, RedisCluster& c) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        co_await put_many(alice, 20'000);
        Move move(c);
        for (bool ends : {false, true}) {
          auto terms = mirror_terms();
          // The first value that is loaded calls this, before most pages have been asked for. The mirror
          // stands still until it returns.
          terms.types[node_type].merge = [&move, ends, has_moved = false](
                                             auto, std::string_view value) mutable {
            if (!std::exchange(has_moved, true)) {
              if (!ends) move.begin();
              move.keys(ends ? 1u << 20 : 10'000);
              if (ends) move.end();
            }
            return std::string(value);
          };
          auto late = co_await start_instance(settings_for(c), terms);
          auto ready = co_await late->mirror->ready(Clock::now() + 30s);
          CHECK(ready);
          if (!ends) CHECK(late->mirror->counters().snapshots > 1);  // the load begins again
          check_all(*late->mirror, 20'000);
          co_await stop_instance(*late);
        }
      },
      cluster);
}

TEST_CASE("a key that moved is not taken for one that was deleted") {
  RedisCluster cluster;
  auto terms = mirror_terms();
  terms.compare_pause = 1ms;  // a round every 100 ms
  with_mirrors(
      {settings_for(cluster)}, terms,
      [](Instances& all, RedisCluster& c) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        co_await put_many(alice, 200);
        Move move(c);
        move.begin();
        for (int i = 0; i < 10; ++i) {
          move.keys(20);
          co_await sleep_for(100ms);  // time for a round, if there is one
          check_all(alice, 200);
          CHECK(alice.read()->age(Clock::now()) < 5s);
        }
        move.keys(1000);
        move.end();
        move.to.cli({"SET", "{c1}:nodes:7", "by hand"});
        co_await eventually_seen(alice, node_type, "7", "by hand");
        CHECK(alice.counters().snapshots == 1);
        CHECK(all[0]->rewrites.empty());
      },
      cluster);
}

TEST_CASE("while a slot moves, what older peers change is seen at either server") {
  RedisCluster cluster;
  with_mirrors(
      {settings_for(cluster)}, mirror_terms(),
      [](Instances& all, RedisCluster& c) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        co_await put_many(alice, 40);
        Move move(c);
        move.begin();
        move.keys(20);
        auto peer = redis::Client::create(co_await asio::this_coro::executor, settings_for(c));
        REQUIRE(peer);
        for (int i = 0; i < 40; ++i) {
          auto id = std::to_string(i);
          redis::Command change("SET", "{c1}:nodes:" + id, "theirs");
          auto set = co_await (*peer)->command(std::move(change));
          CHECK(set);
          auto notice = fmt::format(R"({{"type":"node","id":"{}"}})", id);
          redis::Command news("PUBLISH", mirror_terms().channel, notice);
          auto told =
              co_await (*peer)->command(std::move(news), redis::CallOptions().on_any_node());
          CHECK(told);
        }
        for (int i = 0; i < 40; ++i)
          co_await eventually_seen(alice, node_type, std::to_string(i), "theirs");
        CHECK(alice.health() == MirrorHealth::current);
        co_await (*peer)->close();
      },
      cluster);
}

TEST_CASE(
    "writes whose keys are at two servers wait until the slot has moved, and are all written") {
  RedisCluster cluster;
  with_mirrors(
      {settings_for(cluster), settings_for(cluster)}, mirror_terms(),
      [](Instances& all, RedisCluster& c) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        auto& bob = *all[1]->mirror;
        co_await put_many(alice, 20);
        Move move(c);
        move.begin();
        co_await put(alice, node_type, "7", "all keys are still at one server");
        Batch batch;
        batch.push_back({node_type, "new", "1"});  // the one that would get it has no log
        auto waits = co_await alice.put(std::move(batch), Clock::now() + 4s);
        REQUIRE(!waits);
        CHECK(waits.error().code == Errc::timeout);
        CHECK(alice.health() == MirrorHealth::degraded);
        CHECK(bob.health() == MirrorHealth::current);  // it has nothing to write
        CHECK(bob.read()->age(Clock::now()) < 5s);
        for (int i = 0; i < 20; ++i) {
          Batch more;
          more.push_back({node_type, std::to_string(i), "later"});
          REQUIRE(alice.post(std::move(more)));
        }
        move.keys(1000);
        co_await sleep_for(100ms);  // all keys are at the other server, but not the new one
        move.end();
        co_await eventually_seen(bob, node_type, "new", "1");
        for (int i = 0; i < 20; ++i)
          co_await eventually_seen(bob, node_type, std::to_string(i), "later");
        auto current = [](Mirror& m) { return m.health() == MirrorHealth::current; };
        co_await eventually(20s, "it is well again", current, alice);
        CHECK(alice.counters().refused_writes == 0);
        for (auto& each : all) CHECK(each->rewrites.empty());
      },
      cluster);
}
