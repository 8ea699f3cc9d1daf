#pragma once
// Nodes and tables for tests of this folder.
#include <doctest/doctest.h>

#include <string>

#include "services/foghorn/balance/choose.h"
#include "services/foghorn/balance/view.h"

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

inline constexpr double london_lat = 51.5074, london_lon = -0.1278;

inline Query from_london(std::string_view stream = "demo") {
  Query query;
  query.stream = stream;
  query.latitude = london_lat;
  query.longitude = london_lon;
  return query;
}

// The score or the rejection of one node.
inline Explanation explained(const RoutingTable& table, const Query& query, std::string_view id) {
  for (const auto& one : explain(table, query))
    if (node_at(table, one.node)->id == id) return one;
  FAIL("every node is explained");
  return {};
}
inline Rejection why(const RoutingTable& table, const Query& query, std::string_view id) {
  return explained(table, query, id).rejection;
}

inline std::string why_none(TableBuilder& builder, const Query& query) {
  auto table = builder.publish();
  auto decision = choose(*table, query);
  CHECK(decision.empty());
  return why_none(*table, query, decision);
}

}  // namespace warren::balance
