#pragma once
// Entities in memory: an immutable snapshot for any number of readers, and how the next snapshot is
// made from it without copying what did not change.
//
// A table is a tree of fixed depth, 128 branches of 128 leaves; an entity's hash says where it is.
// To change an entity, its leaf and the two nodes above it are copied; everything else is shared
// with existing snapshots. Nodes made since the last snapshot are changed in place, so a large
// batch or the first load copies nothing twice.
#include <algorithm>
#include <array>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "primitives/mirror/entry.h"

namespace warren {

// The text lies directly behind the object, so that a lookup waits for memory only once.
class Entity {
 public:
  // `stored` is the value in Redis, if a merge turned it into another one.
  static std::shared_ptr<const Entity> create(std::string_view id, std::string_view value,
                                              Version version,
                                              std::optional<std::string_view> stored = {});

  std::string_view id() const { return {text(), id_size_}; }
  std::string_view value() const { return {text() + id_size_, value_size_}; }
  // The version of the change that set this value, or a later one at which it was read and found
  // unchanged.
  Version version() const { return version_; }
  std::string_view stored() const {
    return is_merged_ ? std::string_view(text() + id_size_ + value_size_, stored_size_) : value();
  }

 private:
  Entity() = default;
  const char* text() const { return reinterpret_cast<const char*>(this + 1); }

  Version version_;
  std::uint32_t id_size_ = 0, value_size_ = 0, stored_size_ = 0;
  bool is_merged_ = false;
};

// The entities of one type.
class Table {
 public:
  const Entity* find(std::string_view id) const;
  std::size_t size() const { return root_ ? root_->size : 0; }
  // In no particular order.
  template <class Visit>
  void each(Visit visit) const {
    if (!root_) return;
    for (const auto& branch : root_->branches)
      if (branch)
        for (const auto& leaf : branch->leaves)
          if (leaf)
            for (const auto& slot : leaf->slots) visit(*slot.entity);
  }

  // Calls visit(before, after) for each entity whose value differs, with null where it is missing.
  // Costs only what differs for tables of one history: shared nodes are skipped.
  template <class Visit>
  static void each_change(const Table& before, const Table& after, Visit visit);

  // Nodes of this edit are changed in place, because no snapshot has them. Publishing a copy of the
  // table ends the edit.
  void put(std::shared_ptr<const Entity> entity, std::uint64_t edit);
  bool erase(std::string_view id, std::uint64_t edit);

 private:
  static constexpr std::size_t fan_out = 128;
  struct Slot {
    std::size_t hash;
    std::shared_ptr<const Entity> entity;  // shared by all snapshots in which it did not change
  };
  struct Leaf {
    std::uint64_t edit;
    boost::container::small_vector<Slot, 4> slots;
  };
  struct Branch {
    std::uint64_t edit;
    std::array<std::shared_ptr<Leaf>, fan_out> leaves;  // shared like entities
  };
  struct Root {
    std::uint64_t edit;
    std::size_t size = 0;
    std::array<std::shared_ptr<Branch>, fan_out> branches;
  };
  Leaf& leaf_to_change(std::size_t hash, std::uint64_t edit);
  static const Entity* find(const Leaf* leaf, const Slot& like);

  std::shared_ptr<Root> root_;
};

template <class Visit>
void Table::each_change(const Table& before, const Table& after, Visit visit) {
  auto leaf_of = [](const Branch* branch, std::size_t i) -> const Leaf* {
    return branch ? branch->leaves[i].get() : nullptr;
  };
  auto branch_of = [](const Root* root, std::size_t i) -> const Branch* {
    return root ? root->branches[i].get() : nullptr;
  };
  auto compare = [&visit](const Leaf* old_leaf, const Leaf* new_leaf) {
    if (old_leaf)
      for (const auto& slot : old_leaf->slots)
        if (!find(new_leaf, slot)) visit(slot.entity.get(), nullptr);
    if (new_leaf)
      for (const auto& slot : new_leaf->slots) {
        const auto* old_entity = find(old_leaf, slot);
        if (!old_entity ||
            (old_entity != slot.entity.get() && old_entity->value() != slot.entity->value()))
          visit(old_entity, slot.entity.get());
      }
  };
  if (before.root_ == after.root_) return;
  for (std::size_t i = 0; i < fan_out; ++i) {
    const auto* old_branch = branch_of(before.root_.get(), i);
    const auto* new_branch = branch_of(after.root_.get(), i);
    if (old_branch == new_branch) continue;
    for (std::size_t j = 0; j < fan_out; ++j) {
      const auto* old_leaf = leaf_of(old_branch, j);
      const auto* new_leaf = leaf_of(new_branch, j);
      if (old_leaf != new_leaf) compare(old_leaf, new_leaf);
    }
  }
}

// Everything a mirror knows, at one place in the log: what was put together is seen together.
class Snapshot {
 public:
  Snapshot(std::vector<Table> tables, Version version, Clock::time_point fresh_at)
      : tables_(std::move(tables)), version_(version), fresh_at_(fresh_at) {}

  // `type` is its index in MirrorTerms::types.
  const Entity* find(std::size_t type, std::string_view id) const { return tables_[type].find(id); }
  const Table& table(std::size_t type) const { return tables_[type]; }
  Version version() const { return version_; }

  // How long ago this is known to have been the latest state. Never too low. It grows while Redis
  // is away, and while an old snapshot is kept.
  Clock::duration age(Clock::time_point now) const {
    return std::max(Clock::duration::zero(), now - fresh_at_.load());
  }
  // Redis was asked at this time and had nothing newer.
  void confirm(Clock::time_point fresh_at) { fresh_at_ = fresh_at; }

 private:
  std::vector<Table> tables_;
  Version version_;
  std::atomic<Clock::time_point> fresh_at_;
};

// The current snapshot, for any thread. (In libstdc++ 12, loading an atomic shared_ptr releases its
// lock with a relaxed store, and may mix two values. This lock is held for one increment.)
class CurrentSnapshot {
 public:
  explicit CurrentSnapshot(std::shared_ptr<const Snapshot> first) : snapshot_(std::move(first)) {}

  std::shared_ptr<const Snapshot> load() const {
    lock();
    auto copy = snapshot_;
    locked_.clear(std::memory_order_release);
    return copy;
  }
  void store(std::shared_ptr<const Snapshot> next) {
    lock();
    snapshot_.swap(next);
    locked_.clear(std::memory_order_release);
  }

 private:
  void lock() const {
    while (locked_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  std::shared_ptr<const Snapshot> snapshot_;  // shared with all readers
  mutable std::atomic_flag locked_;
};

}  // namespace warren
