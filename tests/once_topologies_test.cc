// Once over Sentinel and Cluster: what a change of primary, or a slot that moves, does to it.
#include "with_once.h"

using namespace warren;

namespace {

constexpr const char* thing = "runtime-s1";

}  // namespace

TEST_CASE("in a cluster of many things each is created once, in its own slot") {
  RedisCluster cluster;
  auto settings = settings_for(cluster);
  with_once({settings, settings, settings}, once_terms(),
            [](OnceProcesses& processes) -> awaitable<void> {
              auto executor = processes[0].client->executor();
              Workshop shop(executor);
              shop.let_end();
              constexpr std::size_t things = 20;
              std::vector<Wished> wishes(things * 3);
              TaskGroup callers(executor);
              for (std::size_t i = 0; i < wishes.size(); ++i)
                callers.start("caller",
                              wish(*processes[i % 3].once, fmt::format("thing-{}", i / 3),
                                   shop.creator(fmt::format("{} by {}", i / 3, i % 3)), wishes[i]));
              co_await callers.join();
              CHECK(shop.begun == int(things));
              for (std::size_t i = 0; i < wishes.size(); ++i)
                CHECK(wishes[i].got().record.bytes == wishes[i / 3 * 3].got().record.bytes);
            });
}

TEST_CASE("while a slot moves, things in it are created, waited for and attached to") {
  RedisCluster cluster;
  auto settings = settings_for(cluster);
  with_once(
      {settings, settings}, once_terms(2s),
      [](OnceProcesses& processes, RedisCluster& nodes) -> awaitable<void> {
        auto executor = processes[0].client->executor();
        Workshop shop(executor), other(executor);
        Wished first, second, fresh;
        TaskGroup callers(executor);
        callers.start("first", wish(*processes[0].once, thing, shop.creator("pod"), first));
        co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
        auto keys = once_keys("openhands:", thing, true);
        int slot = nodes.slot(keys.state);
        auto& from = nodes.owner(slot);
        auto& to = &from == &nodes.node(0) ? nodes.node(1) : nodes.node(0);
        nodes.begin_migration(slot, from, to);
        // The three keys are on two servers now, of which none takes a script with all of them.
        nodes.move_keys(slot, from, to, 1);
        callers.start("second", wish(*processes[1].once, thing, other.creator("?"), second));
        co_await sleep_for(3s);  // longer than its time: only renewals can have kept it
        CHECK(shop.cancelled == 0);
        CHECK(other.begun == 0);
        shop.let_end();
        co_await callers.join();
        CHECK(first.got().how == OnceHow::done);
        CHECK(second.got().record.bytes == "pod");
        nodes.move_keys(slot, from, to);
        nodes.end_migration(slot, from, to);
        auto there =
            co_await processes[1].once->obtain(thing, other.creator("?"), Clock::now() + 20s);
        REQUIRE_MESSAGE(there, there.error().what);
        CHECK(there->record.bytes == "pod");
      },
      cluster);
}

TEST_CASE("work that is under way when Sentinel fails over goes on, and afterwards all agree") {
  SentinelTrio trio;
  with_once(
      {settings_for(trio), settings_for(trio)}, once_terms(5s),
      [](OnceProcesses& processes, SentinelTrio& servers) -> awaitable<void> {
        auto executor = processes[0].client->executor();
        Workshop shop(executor), other(executor);
        other.let_end();
        Wished first, second;
        TaskGroup callers(executor);
        callers.start("first", wish(*processes[0].once, thing, shop.creator("pod"), first));
        co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
        callers.start("second", wish(*processes[1].once, thing, other.creator("2"), second));
        servers.failover();
        shop.let_end();
        co_await callers.join();
        CHECK(first.outcome->has_value());
        CHECK(second.outcome->has_value());
        // What the old primary took in its last moment is lost, and created once more.
        std::vector<OnceRecord> seen;
        for (auto& process : processes) {
          auto there = co_await process.once->obtain(thing, other.creator("3"), Clock::now() + 30s);
          REQUIRE_MESSAGE(there, there.error().what);
          seen.push_back(there->record);
        }
        CHECK(seen[0].bytes == seen[1].bytes);
        CHECK(seen[0].token == seen[1].token);
      },
      trio);
}

TEST_CASE("when the primary dies, a creation goes on under the next one") {
  SentinelTrio trio;
  with_once(
      {settings_for(trio), settings_for(trio)}, once_terms(20s),
      [](OnceProcesses& processes, SentinelTrio& servers) -> awaitable<void> {
        auto executor = processes[0].client->executor();
        Workshop shop(executor), other(executor);
        other.let_end();
        Wished first, second;
        TaskGroup callers(executor);
        callers.start("first", wish(*processes[0].once, thing, shop.creator("pod"), first));
        co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
        servers.primary().kill();
        shop.let_end();
        callers.start("second", wish(*processes[1].once, thing, other.creator("2"), second));
        co_await callers.join();
        CHECK(first.got().record.bytes == second.got().record.bytes);
        CHECK(first.got().record.token == second.got().record.token);
      },
      trio);
}
