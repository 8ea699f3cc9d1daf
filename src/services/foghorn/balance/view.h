#pragma once
// What a reader finds in a routing table besides the decision itself.
#include <functional>
#include <optional>
#include <string_view>

#include "services/foghorn/balance/table.h"

namespace warren::balance {

// Holders of a stream, as (place of the node in the table, holding).
struct HolderView {
  std::uint32_t node = 0;
  Holding holding = {};
};

// Views stay valid for as long as the table is kept.
std::size_t node_count(const RoutingTable& table);  // places; some may be empty
const NodeFacts* node_at(const RoutingTable& table, std::uint32_t place);  // null: empty place
std::optional<std::uint32_t> place_of(const RoutingTable& table, std::string_view node_id);
const Penalty& penalty_at(const RoutingTable& table, std::uint32_t place);
std::shared_ptr<Penalty> shared_penalty_at(const RoutingTable& table, std::uint32_t place);
Weights weights_of(const RoutingTable& table);

const StreamFacts* find_stream(const RoutingTable& table, std::string_view bare_name);
// By its public id; of several that claim it a live one, the first by name.
const StreamFacts* find_playback(const RoutingTable& table, std::string_view playback_id);
std::vector<HolderView> holders(const RoutingTable& table, std::string_view bare_name);
void each_stream(const RoutingTable& table, const std::function<void(const StreamFacts&)>& visit);
std::size_t stream_count(const RoutingTable& table);

}  // namespace warren::balance
