#include "primitives/mirror/table.h"

#include <algorithm>
#include <functional>
#include <new>

namespace warren {

namespace {

std::size_t hash_of(std::string_view id) { return std::hash<std::string_view>{}(id); }
// The upper bits choose, because a weak hash mixes its lower bits into them.
std::size_t branch_of(std::size_t hash) { return hash >> 57; }
std::size_t leaf_of(std::size_t hash) { return hash >> 50 & 127; }

template <class Node>
Node& own(std::shared_ptr<Node>& node, std::uint64_t edit) {
  if (!node) {
    node = std::make_shared<Node>();
  } else if (node->edit != edit) {
    node = std::make_shared<Node>(*node);
  }
  node->edit = edit;
  return *node;
}

}  // namespace

std::shared_ptr<const Entity> Entity::create(std::string_view id, std::string_view value,
                                             Version version,
                                             std::optional<std::string_view> stored) {
  static_assert(std::is_trivially_destructible_v<Entity>);
  std::size_t size = sizeof(Entity) + id.size() + value.size() + (stored ? stored->size() : 0);
  auto memory = std::make_shared_for_overwrite<std::uint64_t[]>((size + 7) / 8);
  auto* entity = new (memory.get()) Entity;
  entity->version_ = version;
  entity->id_size_ = static_cast<std::uint32_t>(id.size());
  entity->value_size_ = static_cast<std::uint32_t>(value.size());
  entity->is_merged_ = stored.has_value();
  auto* text = std::ranges::copy(id, reinterpret_cast<char*>(entity + 1)).out;
  text = std::ranges::copy(value, text).out;
  if (stored) {
    entity->stored_size_ = static_cast<std::uint32_t>(stored->size());
    std::ranges::copy(*stored, text);
  }
  return {std::move(memory), entity};
}

const Entity* Table::find(std::string_view id) const {
  if (!root_) return nullptr;
  auto hash = hash_of(id);
  const auto& branch = root_->branches[branch_of(hash)];
  if (!branch) return nullptr;
  const auto& leaf = branch->leaves[leaf_of(hash)];
  if (!leaf) return nullptr;
  for (const auto& slot : leaf->slots)
    if (slot.hash == hash && slot.entity->id() == id) return slot.entity.get();
  return nullptr;
}

const Entity* Table::find(const Leaf* leaf, const Slot& like) {
  if (!leaf) return nullptr;
  for (const auto& slot : leaf->slots)
    if (slot.hash == like.hash && slot.entity->id() == like.entity->id()) return slot.entity.get();
  return nullptr;
}

Table::Leaf& Table::leaf_to_change(std::size_t hash, std::uint64_t edit) {
  auto& branch = own(own(root_, edit).branches[branch_of(hash)], edit);
  return own(branch.leaves[leaf_of(hash)], edit);
}

void Table::put(std::shared_ptr<const Entity> entity, std::uint64_t edit) {
  auto hash = hash_of(entity->id());
  auto& slots = leaf_to_change(hash, edit).slots;
  for (auto& slot : slots)
    if (slot.hash == hash && slot.entity->id() == entity->id()) {
      slot.entity = std::move(entity);
      return;
    }
  slots.push_back({hash, std::move(entity)});
  ++root_->size;
}

bool Table::erase(std::string_view id, std::uint64_t edit) {
  if (!find(id)) return false;
  auto& slots = leaf_to_change(hash_of(id), edit).slots;
  slots.erase(std::ranges::find(slots, id, [](const Slot& slot) { return slot.entity->id(); }));
  --root_->size;
  return true;
}

}  // namespace warren
