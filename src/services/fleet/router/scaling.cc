// How many nodes there should be, as this router sees the fleet: GET /v1/scale, and gauges.
#include <boost/json.hpp>

#include "services/fleet/plan/claims.h"
#include "services/fleet/plan/settings.h"
#include "services/fleet/router/router.h"

namespace warren::fleet {

namespace {

// What a repository takes to be fetched and built, of which nobody has said anything yet.
constexpr double unknown_seconds = 2;

// The largest build that a node would take if it had no other under way: see Shelf::admits.
std::uint64_t room_of(const NodeInfo& node) {
  auto free = node.budget_bytes - std::min(node.used_bytes, node.budget_bytes);
  auto later = ShelfTerms().admit_at * static_cast<double>(node.budget_bytes) -
               static_cast<double>(node.used_bytes);
  return std::min(free, static_cast<std::uint64_t>(std::max(0.0, 2 * later)));
}

}  // namespace

FleetLoad load_of(const Table& table) {
  FleetLoad load;
  std::uint64_t most_room = 0;
  for (const auto& [session, member] : table.nodes()) {
    if (member.info.is_draining) continue;
    ++load.nodes;
    load.budget_bytes += member.info.budget_bytes;
    load.busy += static_cast<double>(member.info.busy_percent) / 100;
    most_room = std::max(most_room, room_of(member.info));
  }
  if (load.nodes > 0) load.busy /= static_cast<double>(load.nodes);
  std::uint64_t known = 0, unknown = 0;
  for (const auto& [name, repo] : table.repos())
    for (const auto& [number, slot] : repo.slots) {
      const auto& note = slot.note;
      load.wanted_bytes += note.memory_bytes;
      ++(note.memory_bytes > 0 ? known : unknown);
      bool has_owner = table.nodes().contains(slot.row.owner);
      bool may_be_claimed = !has_owner && slot.row.state != RowState::failed;
      if (may_be_claimed) ++load.unclaimed;
      if (may_be_claimed && offer_of("", name, 0, note).bytes > most_room) ++load.roomless;
      bool is_done = has_owner && (note.has_index || slot.row.state == RowState::draining);
      if (is_done || (!has_owner && !may_be_claimed)) continue;
      auto seconds = static_cast<double>(note.fetch_ms + note.index_ms) / 1000;
      load.queue_seconds += seconds > 0 ? seconds : unknown_seconds;
    }
  // The others are taken to be like those that are known.
  load.wanted_bytes += unknown * (known > 0 ? load.wanted_bytes / known : defaults::unknown_bytes);
  return load;
}

void Router::watch_scale() {
  scaling_ = metrics_.on_collect(
      [this, nodes = metrics_.gauge("warren_fleet_nodes", "Nodes that live and do not drain."),
       wanted = metrics_.gauge("warren_fleet_nodes_wanted", "Nodes that there should be."),
       unclaimed = metrics_.gauge("warren_fleet_unclaimed_rows", "Rows that nobody has."),
       queue = metrics_.gauge("warren_fleet_queue_seconds",
                              "Work of fetching and building that is not done, in seconds."),
       bytes = metrics_.gauge("warren_fleet_wanted_bytes", "Memory that all rows take."),
       busy = metrics_.gauge("warren_fleet_busy_ratio", "How busy the nodes are.")]() mutable {
        const auto& load = scaler_.load();
        nodes.set(static_cast<double>(load.nodes));
        wanted.set(static_cast<double>(scaler_.wanted().nodes));
        unclaimed.set(static_cast<double>(load.unclaimed));
        queue.set(load.queue_seconds);
        bytes.set(static_cast<double>(load.wanted_bytes));
        busy.set(load.busy);
      });
}

std::string Router::scale_json() const {
  const auto& load = scaler_.load();
  return boost::json::serialize(boost::json::object{{"nodes", load.nodes},
                                                    {"wanted", scaler_.wanted().nodes},
                                                    {"reason", scaler_.wanted().reason},
                                                    {"budget_bytes", load.budget_bytes},
                                                    {"wanted_bytes", load.wanted_bytes},
                                                    {"busy", load.busy},
                                                    {"queue_seconds", load.queue_seconds},
                                                    {"unclaimed", load.unclaimed},
                                                    {"roomless", load.roomless}});
}

}  // namespace warren::fleet
