#include "services/foghorn/balance/view.h"

#include "base/error.h"
#include "services/foghorn/balance/routing_table.h"

namespace warren::balance {

std::size_t node_count(const RoutingTable& table) { return table.blocks.size() * block_size; }

const NodeFacts* node_at(const RoutingTable& table, std::uint32_t place) {
  const auto* node = table.node(place);
  return node ? &node->facts : nullptr;
}

std::optional<std::uint32_t> place_of(const RoutingTable& table, std::string_view node_id) {
  const auto* entry = table.places.find(node_id);
  if (!entry || !table.node(entry->place)) return std::nullopt;
  return entry->place;
}

const Penalty& penalty_at(const RoutingTable& table, std::uint32_t place) {
  const auto* node = table.node(place);
  ensure(node != nullptr, "who asks for a penalty has found the node");
  return *node->penalty;
}

std::shared_ptr<Penalty> shared_penalty_at(const RoutingTable& table, std::uint32_t place) {
  const auto* node = table.node(place);
  return node ? node->penalty : nullptr;
}

Weights weights_of(const RoutingTable& table) { return table.weights; }

const StreamFacts* find_stream(const RoutingTable& table, std::string_view bare_name) {
  const auto* entry = table.streams.find(bare_name);
  return entry ? entry->facts.get() : nullptr;
}

const StreamFacts* find_playback(const RoutingTable& table, std::string_view playback_id) {
  const auto* entry = table.playbacks.find(playback_id);
  const StreamFacts* found = nullptr;
  if (entry)
    for (const auto& name : entry->streams) {
      const auto* stream = find_stream(table, name);
      if (!found || (stream->is_live && !found->is_live)) found = stream;
    }
  return found;
}

std::vector<HolderView> holders(const RoutingTable& table, std::string_view bare_name) {
  std::vector<HolderView> all;
  const auto* entry = table.streams.find(bare_name);
  if (!entry) return all;
  for (const auto& [place, holding] : entry->holders)
    if (table.node(place)) all.push_back({place, holding});
  return all;
}

void each_stream(const RoutingTable& table, const std::function<void(const StreamFacts&)>& visit) {
  table.streams.each([&](const StreamEntry& entry) {
    if (entry.facts) visit(*entry.facts);
  });
}

std::size_t stream_count(const RoutingTable& table) { return table.stream_count; }

}  // namespace warren::balance
