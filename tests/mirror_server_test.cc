// Mirrors of one server: what goes wrong between them and it, and that they notice.
#include "testkit/faulty_link.h"
#include "with_mirrors.h"

using namespace warren;

TEST_CASE("what one instance puts, all see, and a deletion too") {
  RedisServer server;
  with_mirrors(
      {settings_for(server), settings_for(server)}, mirror_terms(),
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        auto& bob = *all[1]->mirror;
        auto first = co_await put(alice, node_type, "edge-1", R"({"cpu":1})");
        auto applied = co_await alice.applied(first, Clock::now() + 10s);
        REQUIRE(applied);
        CHECK(seen(alice, node_type, "edge-1") == R"({"cpu":1})");
        co_await eventually_seen(bob, node_type, "edge-1", R"({"cpu":1})");
        CHECK(s.cli({"GET", "{c1}:nodes:edge-1"}) == R"({"cpu":1})");
        auto second = co_await put(bob, node_type, "edge-1", {});
        CHECK(second > first);
        co_await eventually_seen(alice, node_type, "edge-1", {});
        CHECK(s.cli({"EXISTS", "{c1}:nodes:edge-1"}) == "0");
        CHECK(bob.counters().catch_ups == 1);  // the one after the snapshot
        CHECK(bob.health() == MirrorHealth::current);
      },
      server);
}
