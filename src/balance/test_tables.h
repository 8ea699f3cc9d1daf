#pragma once
// Nodes and tables for tests of this folder.
#include <string>

#include "balance/choose.h"
#include "balance/view.h"

namespace warren::balance {

inline constexpr double gib = 1024.0 * 1024 * 1024;

// Healthy, measured, idle, nowhere.
inline NodeFacts an_edge(std::string id) {
  NodeFacts facts;
  facts.id = std::move(id);
  facts.is_healthy = true;
  facts.is_stale = false;
  facts.ram_max = 32 * gib;
  facts.bw_limit = 131'072'000;
  facts.cap_edge = true;
  return facts;
}

inline Holding serving() { return {.inputs = 1}; }

// "nyc sin ams"
inline std::string ids(const RoutingTable& table, const Decision& decision) {
  std::string all;
  for (std::size_t i = 0; i < decision.count; ++i)
    all += (i ? " " : "") + node_at(table, decision.best[i].node)->id;
  return all;
}

}  // namespace warren::balance
