#include "services/fleet/plan/owners.h"

#include <utility>

#include "services/fleet/plan/records.h"

namespace warren::fleet {

namespace {

// Empty: none, or the repository has no other slots.
std::string_view owner_of(const Row& row) {
  auto spec = parse_spec(row.spec);
  return spec && spec->replicas > 1 ? node_name(row.owner) : "";
}

}  // namespace

std::set<std::string> Owners::on_changes(const Changes& changes) {
  std::set<std::string> moved;
  if (changes.is_everything) by_key_.clear();
  for (const auto& key : changes.removed) by_key_.erase(key);
  for (const auto& row : changes.rows) {
    auto name = parse_row_key(row.key);
    auto owner = owner_of(row);
    if (!name || owner.empty())
      by_key_.erase(row.key);
    else if (std::exchange(by_key_[row.key], std::string(owner)) != owner)
      moved.emplace(name->repo);
  }
  return moved;
}

std::vector<std::string> Owners::beside(const std::string& key) const {
  std::vector<std::string> nodes;
  auto name = parse_row_key(key);
  if (!name) return nodes;
  auto first = std::string(name->repo) + "#";
  for (auto at = by_key_.lower_bound(first); at != by_key_.end(); ++at) {
    if (!at->first.starts_with(first)) break;
    if (at->first != key) nodes.push_back(at->second);
  }
  return nodes;
}

}  // namespace warren::fleet
