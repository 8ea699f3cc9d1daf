#pragma once
// What deciding and asking have in common.
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "federation/federation.h"

namespace warren::federation {

inline constexpr std::size_t most_remotes = 5;
inline constexpr std::size_t most_memos = 10'000;

// The highest score first; equal ones by name, so that they do not flap.
inline void keep_best(std::vector<RemoteChoice>& remote) {
  std::sort(remote.begin(), remote.end(), [](const auto& a, const auto& b) {
    return std::tie(b.score, a.cluster, a.node_id) < std::tie(a.score, b.cluster, b.node_id);
  });
  if (remote.size() > most_remotes) remote.resize(most_remotes);
}

inline balance::RemoteEdge measured(const EdgeTelemetry& edge) {
  return {edge.cpu_percent, edge.ram_used, edge.ram_max, edge.bw_available,
          edge.bw_limit,    edge.geo_lat,  edge.geo_lon};
}

// Who asks for the same gets the same answer.
inline std::string memo_key(const PlaceQuery& query) { return query.tenant + "\n" + query.stream; }

}  // namespace warren::federation
