#include "mirror/table.h"

#include <algorithm>
#include <functional>

namespace warren {

namespace {

std::size_t hash_of(std::string_view id) { return std::hash<std::string_view>{}(id); }
// The upper bits choose: those that the lower ones of a weak hash mix into.
std::size_t branch_of(std::size_t hash) { return hash >> 58; }
std::size_t leaf_of(std::size_t hash) { return hash >> 52 & 63; }

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
  std::erase_if(leaf_to_change(hash_of(id), edit).slots,
                [&](const Slot& slot) { return slot.entity->id() == id; });
  --root_->size;
  return true;
}

}  // namespace warren
