#include "services/fleet/plan/scaler.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::fleet;

namespace {

constexpr std::uint64_t gb = 1u << 30;

// A fleet of nodes with 10 GB each, looked at every second.
struct Bench {
  Scaler scaler{{.least = 1, .most = 8}};
  Clock::time_point now{std::chrono::hours(24)};
  FleetLoad load;

  explicit Bench(std::size_t nodes) { set(nodes); }
  void set(std::size_t nodes) {
    load.nodes = nodes;
    load.budget_bytes = nodes * 10 * gb;
  }
  std::size_t after(Clock::duration time) {
    for (auto end = now + time; now < end; now += 1s) scaler.on_load(now, load);
    return scaler.wanted().nodes;
  }
};

}  // namespace

TEST_CASE("more nodes are wanted when repositories take more than they hold, for three minutes") {
  Bench b(2);
  b.load.wanted_bytes = 15 * gb;
  CHECK(b.after(10min) == 2);
  b.load.wanted_bytes = 30 * gb;  // of which four hold 80 %
  CHECK(b.after(2min) == 2);
  CHECK(b.after(2min) == 4);
  CHECK(b.scaler.wanted().reason == "repositories take 30720 MB, and a node may hold 8192");
  // They come one after the other, and the wish stays.
  b.set(3);
  CHECK(b.after(1s) == 4);
  b.set(4);
  CHECK(b.after(10min) == 4);
}

TEST_CASE("what does not last changes nothing") {
  Bench b(2);
  b.load.wanted_bytes = 15 * gb;
  CHECK(b.after(20min) == 2);
  for (int i = 0; i < 20; ++i) {
    b.load.busy = 1;
    CHECK(b.after(2min) == 2);
    b.load.busy = 0.1;
    CHECK(b.after(2min) == 2);
  }
}

TEST_CASE("busy processors and work that waits want more nodes, and not more than is allowed") {
  Bench b(3);
  b.load.wanted_bytes = 20 * gb;
  b.load.busy = 0.9;
  CHECK(b.after(4min) == 5);
  b.load.busy = 0;
  b.load.queue_seconds = 700;
  CHECK(b.after(4min) == 6);
  b.load.queue_seconds = 1e9;
  CHECK(b.after(4min) == 8);
}

TEST_CASE(
    "one node less after fifteen minutes, if the others have room, and then not at once again") {
  Bench b(4);
  b.load.wanted_bytes = 13 * gb;
  CHECK(b.after(14min) == 4);
  CHECK(b.after(2min) == 3);
  b.set(3);
  CHECK(b.after(14min) == 3);
  // Two would be enough at 80 %, and too full at 75 %.
  b.load.wanted_bytes = 155 * gb / 10;
  CHECK(b.after(60min) == 3);
  b.load.wanted_bytes = 13 * gb;
  CHECK(b.after(16min) == 2);
  b.set(2);
  b.load.wanted_bytes = 1 * gb;
  CHECK(b.after(17min) == 1);
  b.set(1);
  CHECK(b.after(60min) == 1);
}

TEST_CASE("rows that only wait for their turn want no other node") {
  Bench b(2);
  b.load.wanted_bytes = 15 * gb;
  b.load.unclaimed = 20;
  CHECK(b.after(20min) == 2);
}

TEST_CASE("a row that finds no room for three minutes wants one more node, whatever the sums say") {
  Bench b(2);
  b.load.wanted_bytes = 4 * gb;
  b.load.roomless = 1;
  CHECK(b.after(2min) == 2);
  b.load.roomless = 0;  // it was only on its way
  CHECK(b.after(2min) == 2);
  b.load.roomless = 1;
  CHECK(b.after(4min) == 3);
}

TEST_CASE("a node that died stays wanted, and one that somebody adds is wanted, too") {
  Bench b(2);
  b.load.wanted_bytes = 20 * gb;
  CHECK(b.after(4min) == 3);
  b.set(3);
  CHECK(b.after(5min) == 3);
  b.set(2);
  CHECK(b.after(10min) == 3);
  // It is back before the lease of its former life has ended.
  b.set(4);
  CHECK(b.after(30s) == 4);
  b.set(3);
  CHECK(b.after(10min) == 3);
  b.set(5);
  CHECK(b.after(10min) == 5);
}

TEST_CASE("of a fleet that was just looked at for the first time nothing is taken away") {
  Bench b(0);
  CHECK(b.after(10s) == 1);
  b.set(4);  // they were only slow
  CHECK(b.after(1min) == 4);
  b.set(3);
  CHECK(b.after(2min) == 3);
  b.set(4);
  CHECK(b.after(4min) == 4);
  b.set(3);  // what was there for three minutes stays wanted
  CHECK(b.after(5min) == 4);
}

TEST_CASE(
    "looks right after a change do not count, so that what they show late is no second step") {
  // Windows of seconds, and a fleet that says how busy it was ten seconds ago.
  Scaler scaler({.most = 8, .up_after = 3s, .down_after = 10s, .settle = 12s});
  std::deque<double> said(10, 0.1);
  std::size_t nodes = 1, changes = 0;
  double traffic = 1.1;  // of the processors of one node
  Clock::time_point now{std::chrono::hours(24)};
  std::size_t most = 0;
  auto live = [&](Clock::duration time) {
    for (auto end = now + time; now < end; now += 1s) {
      said.push_back(std::min(1.0, traffic / static_cast<double>(nodes)));
      FleetLoad load{.nodes = nodes, .budget_bytes = nodes * gb, .busy = said.front()};
      said.pop_front();
      scaler.on_load(now, load);
      if (scaler.wanted().nodes == nodes) continue;
      ++changes;
      nodes = scaler.wanted().nodes;
      most = std::max(most, nodes);
    }
  };
  live(120s);
  CHECK(most == 2);
  CHECK(changes == 1);
  traffic = 0.1;
  live(120s);
  CHECK(nodes == 1);
  CHECK(changes == 2);
}

TEST_CASE("a fleet without nodes wants some at once") {
  Bench b(0);
  b.load.wanted_bytes = 100 * gb;
  CHECK(b.after(1s) == 1);
}

TEST_CASE("a step up and down leads there and back without flapping") {
  Bench b(2);
  b.load.wanted_bytes = 12 * gb;
  std::size_t changes = 0;
  double traffic = 0.8;  // of the processors of two nodes
  auto live = [&](Clock::duration time) {
    for (auto end = b.now + time; b.now < end; b.now += 1s) {
      b.load.busy = std::min(1.0, traffic * 2 / static_cast<double>(b.load.nodes));
      b.scaler.on_load(b.now, b.load);
      if (b.scaler.wanted().nodes != b.load.nodes) {
        ++changes;
        b.set(b.scaler.wanted().nodes);
      }
    }
  };
  live(30min);
  CHECK(b.load.nodes == 3);
  traffic = 0.1;
  live(60min);
  CHECK(b.load.nodes == 2);
  CHECK(changes == 2);
}
