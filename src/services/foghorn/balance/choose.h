#pragma once
// The best nodes for a viewer, a source or an ingest: pure, without allocation, lock, clock or log.
//
//   score = cpu + ram + bandwidth + distance + bonus, then tags       (docs/protocols/balancer.md)
//
// Two policies. `compat` is the integer formula that existing deployments rely on, with its gates
// in its order: only nodes that already have the stream get viewers. `fair` admits every node that
// can pull the stream, scores unknown places in the middle instead of as antipodes, and measures
// remote edges on the scale of local ones.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "services/foghorn/balance/table.h"

namespace warren::balance {

enum class Policy : std::uint8_t { compat, fair };

enum class Rejection : std::uint8_t {
  none,
  inactive,  // unhealthy or stale
  maintenance,
  lacks_capability,
  other_tenant,
  draining,
  is_the_client,  // never pull from yourself
  no_metrics,
  out_of_bandwidth,
  stream_missing,
  no_inputs,
  replicated,
  not_allowed,  // by the node's list of streams
  score_zero,
  count_,
};
std::string_view reason(Rejection rejection);  // "node is draining", as explain prints it

// "edge,premium" -> +5: any of the tags; "-edge" -> -100: none of the tags; "-" -> every node.
struct TagAdjustment {
  std::string expression;
  std::int64_t amount = 0;
};

struct Query {
  std::string_view stream = {};  // bare name; empty: any node will do
  double latitude = unknown_place, longitude = unknown_place;
  std::span<const TagAdjustment> adjustments = {};
  BinaryHost client = {};
  std::size_t most = 5;  // at most most_choices
  bool for_source = false;
  std::string_view capabilities = {};  // "edge,storage": all of them
  std::string_view tenant = {};        // nodes of other tenants are left out
  Policy policy = Policy::compat;
};

struct Score {
  std::uint64_t cpu = 0, ram = 0, bw = 0, geo = 0, bonus = 0;
  std::int64_t adjustment = 0;
  std::uint64_t total = 0;
};

struct Choice {
  std::uint32_t node = 0;  // its place in the table
  std::uint64_t total = 0;
};

inline constexpr std::size_t most_choices = 16;

struct Decision {
  std::array<Choice, most_choices> best = {};  // the highest first; equal ones by node id
  std::size_t count = 0;
  // How many nodes were left out for which reason. Counted only when nothing was found.
  std::array<std::uint32_t, static_cast<std::size_t>(Rejection::count_)> rejected = {};

  bool empty() const { return count == 0; }
};

Decision choose(const RoutingTable& table, const Query& query);
// Why there is no choice, as existing deployments say it. The decision is of this table.
std::string why_none(const RoutingTable& table, const Query& query, const Decision& decision);

// Every node with all components of its score, or the reason that it was left out.
struct Explanation {
  std::uint32_t node = 0;
  Rejection rejection = Rejection::none;
  Score score = {};
};
std::vector<Explanation> explain(const RoutingTable& table, const Query& query);

// An edge of another cluster, measured as a local one would be.
struct RemoteEdge {
  double cpu_percent = 0, ram_used = 0, ram_max = 0;
  double bw_available = 0;
  double bw_limit = 0;  // 0: unknown, which `compat` always takes it to be
  double latitude = unknown_place, longitude = unknown_place;
};
inline constexpr std::uint64_t cross_cluster_penalty = 200;
// 0: not worth the way.
std::uint64_t score_remote(const Weights& weights, const RemoteEdge& edge, double latitude,
                           double longitude, Policy policy);

// For content that is not live: nodes that hold it, the nearest first, then the least loaded.
std::vector<std::uint32_t> artifact_nodes(const RoutingTable& table, std::string_view content_id,
                                          double latitude, double longitude, std::size_t most = 5);

double distance(double lat1, double lon1, double lat2, double lon2);  // 0 same place, 1 antipode
bool is_place(double latitude, double longitude);  // finite, in range, and not (0, 0)

}  // namespace warren::balance
