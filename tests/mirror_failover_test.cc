// Mirrors over a change of primary: what was lost is told, and nothing else is.
#include "with_mirrors.h"

using namespace warren;

namespace {

// Lets what was written so far reach the replicas, and nothing that is written from now on. (A
// stopped replica alone would find the rest in its socket.)
void isolate(RedisServer& primary, const std::vector<RedisServer*>& replicas) {
  for (auto* replica : replicas) {
    wait_for(20s, "the replica has all of it", [&] {
      return replica->info("slave_repl_offset") == primary.info("master_repl_offset");
    });
    replica->pause();
  }
  primary.cli({"CLIENT", "KILL", "TYPE", "replica"});
}

void fail_over_losing(RedisServer& primary, const std::vector<RedisServer*>& replicas) {
  primary.kill();
  for (auto* replica : replicas) replica->resume();
}

awaitable<void> expect_rewrite(Instances& all, Version after, Version until) {
  for (auto& each : all) {
    auto fact = [](Instance& instance) { return !instance.rewrites.empty(); };
    co_await eventually(30s, "the loss is told", fact, *each);
    CHECK(each->rewrites[0].certain);
    CHECK(each->rewrites[0].after == after);
    CHECK(each->rewrites[0].until == until);
  }
}

// The loss, and life after it, whatever the topology.
awaitable<void> lose_a_write(Instances& all, RedisServer& primary,
                             std::vector<RedisServer*> replicas) {
  auto& alice = *all[0]->mirror;
  auto& bob = *all[1]->mirror;
  co_await put(alice, node_type, "kept", "1");
  auto kept = co_await put(bob, node_type, "changed", "old");
  isolate(primary, replicas);
  co_await put(bob, node_type, "changed", "new");
  auto lost = co_await put(alice, node_type, "lost", "1");
  for (auto& each : all) co_await eventually_seen(*each->mirror, node_type, "lost", "1");
  fail_over_losing(primary, replicas);
  co_await expect_rewrite(all, kept, lost);
  for (auto& each : all) {
    co_await eventually_seen(*each->mirror, node_type, "lost", {});
    co_await eventually_seen(*each->mirror, node_type, "changed", "old");
    CHECK(seen(*each->mirror, node_type, "kept") == "1");
  }
  auto gone = co_await bob.applied(lost, Clock::now() + 10ms);
  CHECK(!gone);
  auto next = co_await put(bob, node_type, "next", "1");
  CHECK(next.epoch > lost.epoch);
  co_await eventually_seen(alice, node_type, "next", "1");
  for (auto& each : all) CHECK(each->rewrites.size() == 1);
}

}  // namespace

TEST_CASE("a failover by Sentinel that lost writes is told with the range, and rolled back") {
  SentinelTrio trio;
  with_mirrors(
      {settings_for(trio), settings_for(trio)}, mirror_terms(),
      [](Instances& all, SentinelTrio& t) -> awaitable<void> {
        co_await lose_a_write(all, t.primary(), t.replicas());
      },
      trio);
}

TEST_CASE("a failover of a cluster that lost writes is told with the range, and rolled back") {
  RedisCluster cluster;
  with_mirrors(
      {settings_for(cluster), settings_for(cluster)}, mirror_terms(),
      [](Instances& all, RedisCluster& c) -> awaitable<void> {
        auto& primary = c.owner(c.slot("{c1}:"));
        std::vector<RedisServer*> replicas;
        for (std::size_t i = 0; i < 3; ++i)
          if (&c.node(i) == &primary) replicas.push_back(&c.node(i + 3));
        co_await lose_a_write(all, primary, std::move(replicas));
      },
      cluster);
}

TEST_CASE("an orderly failover loses nothing, and nothing is told") {
  SentinelTrio trio;
  with_mirrors(
      {settings_for(trio), settings_for(trio)}, mirror_terms(),
      [](Instances& all, SentinelTrio& t) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        auto& bob = *all[1]->mirror;
        auto before = co_await put(alice, node_type, "a", "1");
        co_await eventually_seen(bob, node_type, "a", "1");
        t.failover();
        // The old primary takes writes, and loses them, for as long as nobody tells it.
        auto knows = [](Instance& instance, Version& v) {
          return instance.client->epoch() > v.epoch;
        };
        co_await eventually(20s, "alice knows the new one", knows, *all[0], before);
        auto after = co_await put(alice, node_type, "a", "2");
        CHECK(after.epoch > before.epoch);
        co_await eventually_seen(bob, node_type, "a", "2");
        for (auto& each : all) {
          CHECK(each->rewrites.empty());
          CHECK(each->mirror->counters().snapshots == 1);
        }
      },
      trio);
}

TEST_CASE("in a cluster a mirror loads from the one shard that has it, and follows its slot") {
  RedisCluster cluster;
  with_mirrors(
      {settings_for(cluster)}, mirror_terms(),
      [](Instances& all, RedisCluster& c) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        for (int i = 0; i < 1000; ++i) {
          Batch batch;
          batch.push_back({node_type, std::to_string(i), "1"});
          REQUIRE(alice.post(std::move(batch)));
        }
        co_await put(alice, stream_type, "end", "1");
        auto slot = c.slot("{c1}:");
        auto& from = c.owner(slot);
        auto& to = c.node(0).port() == from.port() ? c.node(1) : c.node(0);
        auto late = co_await start_instance(settings_for(c), mirror_terms());
        auto ready = co_await late->mirror->ready(Clock::now() + 20s);
        CHECK(ready);
        CHECK(late->mirror->read()->table(node_type).size() == 1000);
        c.migrate_slot(slot, from, to);
        co_await put(alice, node_type, "moved", "1");
        co_await eventually_seen(*late->mirror, node_type, "moved", "1");
        CHECK(late->mirror->read()->table(node_type).size() == 1001);
        CHECK(late->rewrites.empty());
        co_await stop_instance(*late);
      },
      cluster);
}
