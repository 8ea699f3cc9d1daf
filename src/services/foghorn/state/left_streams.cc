#include "services/foghorn/state/left_streams.h"

namespace warren::foghorn {

void LeftStreams::add(const std::string& node, const std::string& stream) {
  remove(stream);
  by_node_[node].emplace(++last_turn_, stream);
  places_.insert_or_assign(stream, Place{node, last_turn_});
}

void LeftStreams::remove(std::string_view stream) {
  auto found = places_.find(stream);
  if (found == places_.end()) return;
  auto of_node = by_node_.find(found->second.node);
  of_node->second.erase(found->second.turn);
  if (of_node->second.empty()) by_node_.erase(of_node);
  places_.erase(found);
}

std::size_t LeftStreams::count(std::string_view node) const {
  auto of_node = by_node_.find(node);
  return of_node == by_node_.end() ? 0 : of_node->second.size();
}

const std::string* LeftStreams::oldest(std::string_view node) const {
  auto of_node = by_node_.find(node);
  return of_node == by_node_.end() ? nullptr : &of_node->second.begin()->second;
}

}  // namespace warren::foghorn
