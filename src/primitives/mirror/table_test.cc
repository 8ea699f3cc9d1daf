#include "primitives/mirror/table.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <thread>

using namespace warren;

namespace {

std::shared_ptr<const Entity> entity(const std::string& id, const std::string& value) {
  return Entity::create(id, value, {1, 1});
}

std::map<std::string, std::string> contents(const Table& table) {
  std::map<std::string, std::string> all;
  table.each([&](const Entity& e) { all.emplace(e.id(), e.value()); });
  return all;
}

}  // namespace

TEST_CASE("a table is a map, and every copy that was given away stays as it was") {
  std::mt19937 random(7);
  Table table;
  std::map<std::string, std::string> expected;
  std::vector<std::pair<Table, std::map<std::string, std::string>>> kept;
  for (std::uint64_t edit = 1; edit <= 50; ++edit) {
    for (int i = 0; i < 200; ++i) {
      auto id = std::to_string(random() % 3000);
      if (random() % 4 == 0) {
        CHECK(table.erase(id, edit) == (expected.erase(id) == 1));
      } else {
        auto value = std::to_string(random());
        table.put(entity(id, value), edit);
        expected[id] = value;
      }
    }
    kept.emplace_back(table, expected);
  }
  for (const auto& [copy, was] : kept) {
    CHECK(copy.size() == was.size());
    CHECK(contents(copy) == was);
  }
  for (int i = 0; i < 3000; ++i) {
    auto id = std::to_string(i);
    const auto* found = table.find(id);
    auto it = expected.find(id);
    REQUIRE((found != nullptr) == (it != expected.end()));
    if (found) CHECK(found->value() == it->second);
  }
}

TEST_CASE("what differs between two tables is told, and what they share is not looked at") {
  std::mt19937 random(11);
  Table table;
  std::vector<Table> kept{table};
  for (std::uint64_t edit = 1; edit <= 20; ++edit) {
    for (int i = 0; i < 100; ++i) {
      auto id = std::to_string(random() % 500);
      if (random() % 3 == 0)
        table.erase(id, edit);
      else
        table.put(entity(id, std::to_string(random() % 5)), edit);
    }
    kept.push_back(table);
  }
  for (const auto& before : kept)
    for (const auto& after : kept) {
      auto replayed = contents(before);
      const auto was = replayed;
      std::set<std::string> told;
      Table::each_change(before, after, [&](const Entity* from, const Entity* to) {
        std::string id((from ? from : to)->id());
        CHECK(told.insert(id).second);
        CHECK((from ? was.at(id) == from->value() : !was.contains(id)));
        CHECK((!from || !to || from->value() != to->value()));
        if (to)
          replayed[id] = to->value();
        else
          replayed.erase(id);
      });
      CHECK(replayed == contents(after));
    }
  // The same values, read again: no node is shared, and nothing differs.
  Table again;
  for (const auto& [id, value] : contents(table)) again.put(entity(id, value), 1);
  int differences = 0;
  Table::each_change(table, again, [&](const Entity*, const Entity*) { ++differences; });
  CHECK(differences == 0);
}

TEST_CASE("an empty table has nothing, and an entity knows what Redis has of it") {
  Table table;
  CHECK(!table.find("a"));
  CHECK(!table.erase("a", 1));
  CHECK(table.size() == 0);
  CHECK(entity("a", "value")->stored() == "value");
  auto merged = Entity::create("a", "merged", {1, 2}, "");
  CHECK(merged->stored() == "");
  CHECK(merged->value() == "merged");
  CHECK(merged->id() == "a");
  CHECK(merged->version() == Version{1, 2});
}

TEST_CASE("a snapshot that is held grows older, and one that was confirmed is as old as that") {
  auto start = Clock::now();
  Snapshot snapshot(std::vector<Table>(1), {1, 1}, start);
  CHECK(snapshot.age(start + 3s) == 3s);
  snapshot.confirm(start + 2s);
  CHECK(snapshot.age(start + 3s) == 1s);
}

TEST_CASE("any thread may read while the next snapshots are made, and sees each of them whole") {
  std::vector<Table> tables(1);
  CurrentSnapshot current(std::make_shared<Snapshot>(tables, Version{}, Clock::now()));
  std::atomic<bool> ended = false;
  std::atomic<int> wrong = 0, reads = 0;
  auto read = [&] {
    std::uint64_t last = 0;
    while (!ended) {
      auto snapshot = current.load();
      auto version = snapshot->version().sequence;
      auto expected = std::to_string(version);
      for (auto id : {"a", "b"}) {
        const auto* found = snapshot->find(0, id);
        if (version > 0 && (!found || found->value() != expected)) ++wrong;
      }
      if (version < last || snapshot->age(Clock::now()) < 0s) ++wrong;
      last = version;
      ++reads;
    }
  };
  std::thread first(read), second(read);
  for (std::uint64_t i = 1; i <= 3000 || reads < 100; ++i) {
    for (auto id : {"a", "b"}) tables[0].put(entity(id, std::to_string(i)), i);
    auto next = std::make_shared<Snapshot>(tables, Version{1, i}, Clock::now());
    current.store(next);
    next->confirm(Clock::now());
  }
  ended = true;
  first.join();
  second.join();
  CHECK(wrong == 0);
}
