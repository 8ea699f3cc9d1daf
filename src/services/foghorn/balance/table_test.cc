#include "services/foghorn/balance/table.h"

#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "services/foghorn/balance/test_tables.h"

using namespace warren::balance;

namespace {

std::string holder_ids(const RoutingTable& table, std::string_view stream) {
  std::set<std::string> all;
  for (const auto& holder : holders(table, stream)) all.insert(node_at(table, holder.node)->id);
  std::string text;
  for (const auto& id : all) text += (text.empty() ? "" : " ") + id;
  return text;
}

}  // namespace

TEST_CASE("a published table does not change, and the same one comes again when nothing did") {
  TableBuilder builder;
  builder.put_node(an_edge("a"));
  builder.put_holding("demo", "a", serving());
  auto before = builder.publish();
  CHECK(builder.publish() == before);
  builder.put_holding("demo", "a", serving());  // as it was
  CHECK(builder.publish() == before);
  auto node = an_edge("a");
  node.cpu_percent = 50;
  builder.put_node(node);
  builder.put_node(an_edge("b"));
  builder.put_holding("demo", "b", {.inputs = 2, .viewers = 3});
  builder.erase_holding("demo", "a");
  auto after = builder.publish();
  CHECK(after != before);
  CHECK(holder_ids(*before, "demo") == "a");
  CHECK(holder_ids(*after, "demo") == "b");
  CHECK(node_at(*before, *place_of(*before, "a"))->cpu_percent == 0);
  CHECK(node_at(*after, *place_of(*after, "a"))->cpu_percent == 50);
  CHECK_FALSE(place_of(*before, "b"));
  CHECK(holders(*after, "demo").at(0).holding == Holding{.inputs = 2, .viewers = 3});
}

TEST_CASE("streams are found by name and by public id") {
  TableBuilder builder;
  builder.put_stream({.name = "demo", .playback_id = "p1", .tenant = "t", .is_live = true});
  builder.put_stream({.name = "other"});
  auto first = builder.publish();
  CHECK(find_stream(*first, "demo")->tenant == "t");
  CHECK(find_playback(*first, "p1")->name == "demo");
  CHECK(find_playback(*first, "") == nullptr);
  CHECK(stream_count(*first) == 2);
  builder.put_stream({.name = "demo", .playback_id = "p2"});
  builder.erase_stream("other");
  builder.erase_stream("never was");
  auto second = builder.publish();
  CHECK(find_playback(*second, "p1") == nullptr);
  CHECK(find_playback(*second, "p2")->name == "demo");
  CHECK(find_stream(*second, "other") == nullptr);
  CHECK(stream_count(*second) == 1);
  CHECK(find_playback(*first, "p1")->name == "demo");
  std::set<std::string> names;
  each_stream(*first, [&](const StreamFacts& facts) { names.insert(facts.name); });
  CHECK(names == std::set<std::string>{"demo", "other"});
}

TEST_CASE("of streams with one public id the live one has it, whatever came first") {
  for (bool is_reversed : {false, true}) {
    TableBuilder builder;
    std::vector<StreamFacts> both{{.name = "first", .playback_id = "p"},
                                  {.name = "second", .playback_id = "p"}};
    if (is_reversed) std::swap(both[0], both[1]);
    for (const auto& facts : both) builder.put_stream(facts);
    CHECK(find_playback(*builder.publish(), "p")->name == "first");
    builder.put_stream({.name = "second", .playback_id = "p", .is_live = true});
    CHECK(find_playback(*builder.publish(), "p")->name == "second");
    builder.erase_stream("second");
    CHECK(find_playback(*builder.publish(), "p")->name == "first");
    builder.erase_stream("first");
    CHECK(!find_playback(*builder.publish(), "p"));
  }
}

TEST_CASE("a holding of an unknown node counts once the node is known, and goes with it") {
  TableBuilder builder;
  builder.put_holding("demo", "late", serving());
  builder.put_artifact("clip", {"late"});
  auto table = builder.publish();
  CHECK(holders(*table, "demo").empty());
  CHECK(builder.penalty("late") == nullptr);
  CHECK_FALSE(place_of(*table, "late"));
  builder.put_node(an_edge("late"));
  table = builder.publish();
  CHECK(holder_ids(*table, "demo") == "late");
  CHECK(artifact_nodes(*table, "clip", 1, 1).size() == 1);
  builder.erase_node("late");
  builder.put_node(an_edge("late"));
  table = builder.publish();
  CHECK(holders(*table, "demo").empty());
  CHECK(artifact_nodes(*table, "clip", 1, 1).empty());
}

TEST_CASE("a node keeps its place, and another one gets it only when nothing refers to it") {
  TableBuilder builder;
  builder.put_node(an_edge("a"));
  builder.put_node(an_edge("b"));
  builder.put_holding("demo", "ghost", serving());
  auto table = builder.publish();
  auto a = *place_of(*table, "a"), b = *place_of(*table, "b");
  builder.erase_node("a");
  builder.put_node(an_edge("b"));
  builder.put_node(an_edge("c"));
  table = builder.publish();
  CHECK(*place_of(*table, "b") == b);
  CHECK(*place_of(*table, "c") == a);
  builder.put_node(an_edge("d"));
  table = builder.publish();
  CHECK(holders(*table, "demo").empty());  // d did not get the ghost's place
  builder.put_node(an_edge("ghost"));
  table = builder.publish();
  CHECK(holder_ids(*table, "demo") == "ghost");
  builder.erase_stream("demo");
  builder.erase_node("ghost");
  builder.put_node(an_edge("e"));
  CHECK(node_count(*builder.publish()) == 64);
}

TEST_CASE("a penalty outlives reports of its node, and starts anew with a new node") {
  TableBuilder builder;
  builder.put_node(an_edge("a"));
  auto penalty = builder.penalty("a");
  penalty->bandwidth = 7;
  auto table = builder.publish();
  builder.put_node(an_edge("a"));
  auto next = builder.publish();
  auto place = *place_of(*next, "a");
  CHECK(&penalty_at(*table, place) == &penalty_at(*next, place));
  CHECK(shared_penalty_at(*next, place) == penalty);
  builder.erase_node("a");
  CHECK(builder.penalty("a") == nullptr);
  builder.put_node(an_edge("a"));
  CHECK(builder.penalty("a")->bandwidth == 0);
  CHECK(penalty_at(*table, place).bandwidth == 7);
}

TEST_CASE("new weights count for all nodes of the next table") {
  TableBuilder builder;
  for (int i = 0; i < 100; ++i) builder.put_node(an_edge(std::to_string(i)));
  auto before = builder.publish();
  builder.set_weights({1, 2, 4, 8, 16});
  auto after = builder.publish();
  CHECK(weights_of(*before) == Weights{});
  CHECK(weights_of(*after) == Weights{1, 2, 4, 8, 16});
  for (const auto& one : explain(*before, {})) CHECK(one.score.total == 2000);
  for (const auto& one : explain(*after, {})) CHECK(one.score.total == 7);
}

TEST_CASE("readers decide while a writer publishes") {
  TableBuilder builder;
  for (int i = 0; i < 100; ++i) {
    builder.put_node(an_edge("n" + std::to_string(i)));
    builder.put_holding("s" + std::to_string(i % 10), "n" + std::to_string(i), serving());
  }
  builder.put_holding("all", "n0", serving());
  // libstdc++ 12 has no atomic shared_ptr to rely on: see primitives/mirror/table.h.
  std::mutex mutex;
  auto current = builder.publish();
  auto newest = [&] {
    std::lock_guard lock(mutex);
    return current;
  };
  std::atomic<bool> is_over = false;
  auto read = [&] {
    std::size_t found = 0;
    while (!is_over) {
      auto table = newest();
      for (auto policy : {Policy::compat, Policy::fair}) {
        Query query;
        query.stream = "all";
        query.policy = policy;
        auto decision = choose(*table, query);
        found += decision.count;
        // Whoever is chosen is of the same table: node 0 always holds it.
        if (decision.empty() || !node_at(*table, decision.best[0].node)) std::abort();
        shared_penalty_at(*table, decision.best[0].node)->bandwidth.fetch_add(1);
      }
    }
    return found;
  };
  std::vector<std::thread> readers;
  std::atomic<std::size_t> found = 0;
  for (int i = 0; i < 2; ++i) readers.emplace_back([&] { found += read(); });
  for (int round = 0; round < 2000; ++round) {
    auto node = "n" + std::to_string(1 + round % 99);
    if (round % 7 == 0) builder.erase_node(node);
    auto facts = an_edge(node);
    facts.cpu_percent = round % 100;
    builder.put_node(facts);
    builder.put_holding("all", node, {.inputs = static_cast<std::uint32_t>(round % 2)});
    builder.put_stream({.name = "s" + std::to_string(round % 50)});
    auto next = builder.publish();
    std::lock_guard lock(mutex);
    current = std::move(next);
  }
  is_over = true;
  for (auto& reader : readers) reader.join();
  CHECK(found > 0);
}
