#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "services/foghorn/balance/ask.h"

namespace warren::balance {

std::string_view reason(Rejection rejection) {
  switch (rejection) {
    case Rejection::none:
      return "";
    case Rejection::inactive:
      return "node is unhealthy or stale";
    case Rejection::maintenance:
      return "node in maintenance";
    case Rejection::lacks_capability:
      return "node lacks a required capability";
    case Rejection::other_tenant:
      return "node belongs to another tenant";
    case Rejection::draining:
      return "node is draining";
    case Rejection::is_the_client:
      return "node is the client itself";
    case Rejection::no_metrics:
      return "node metrics not ready";
    case Rejection::out_of_bandwidth:
      return "node out of bandwidth";
    case Rejection::stream_missing:
      return "stream missing on node";
    case Rejection::no_inputs:
      return "stream has no inputs on node";
    case Rejection::replicated:
      return "stream is replicated on node (excluded for source selection)";
    case Rejection::not_allowed:
      return "stream not allowed by node config";
    case Rejection::score_zero:
      return "score adjusted to zero";
    case Rejection::count_:
      break;
  }
  return "";
}

std::string why_none(const RoutingTable&, const Query& query, const Decision& decision) {
  auto count = [&](Rejection kind) { return decision.rejected[static_cast<std::size_t>(kind)]; };
  using enum Rejection;
  std::uint32_t known = 0;
  for (auto number : decision.rejected) known += number;
  if (known == count(inactive)) return "no nodes available in unified state";
  // Kinds that existing deployments count; the others are passed over in silence.
  std::vector<Rejection> kinds;
  for (auto kind : {maintenance, draining, no_metrics, out_of_bandwidth, stream_missing, no_inputs,
                    replicated, not_allowed, score_zero})
    if (count(kind) > 0) kinds.push_back(kind);
  if (kinds.empty() && count(lacks_capability) > 0)
    return fmt::format("no nodes match required capabilities ({})", query.capabilities);
  auto no_origin = [&](std::string_view why) {
    return fmt::format("can't find origin for stream \"{}\" ({})", query.stream, why);
  };
  if (kinds == std::vector{stream_missing, no_inputs}) return no_origin("missing or no inputs");
  if (kinds.size() == 1) switch (kinds.front()) {
      case stream_missing:
        return no_origin("not present on any active node");
      case no_inputs:
        return no_origin("no active inputs on any node");
      case out_of_bandwidth:
        return "all suitable nodes are out of bandwidth";
      case no_metrics:
        return "node metrics not ready (missing ram_max/bw_limit)";
      case not_allowed:
        return fmt::format("stream \"{}\" not allowed by node configuration", query.stream);
      case maintenance:
        return "all suitable nodes are in maintenance";
      case draining:
        return "all suitable nodes are draining";
      default:
        break;
    }
  return "no suitable nodes available";
}

std::vector<Explanation> explain(const RoutingTable& table, const Query& query) {
  std::vector<Explanation> all;
  each_judged(Ask(table, query), [&](std::uint32_t place, Rejection rejection, const Score& score) {
    all.push_back({place, rejection, score});
  });
  return all;
}

std::vector<std::uint32_t> artifact_nodes(const RoutingTable& table, std::string_view content_id,
                                          double latitude, double longitude, std::size_t most) {
  struct Copy {
    bool is_draining;
    double far;  // infinite: unknown
    std::uint64_t load;
    std::string_view id;
    std::uint32_t place;
  };
  std::vector<Copy> copies;
  auto viewer = Point::of(latitude, longitude);
  const auto* entry = table.artifacts.find(content_id);
  for (auto place : entry ? entry->places : std::vector<std::uint32_t>()) {
    const auto& block = *table.blocks[place / block_size];
    auto at = place % block_size;
    if (((block.active & ~block.maintenance) >> at & 1) == 0) continue;
    auto point = block.point(at);
    bool is_known = viewer.is_known && point.is_known;
    copies.push_back({(block.draining >> at & 1) != 0,
                      is_known ? distance(viewer, point) : HUGE_VAL,
                      ~(block.cpu[at] + block.ram[at]), block.facts(at).id, place});
  }
  std::ranges::sort(copies, {}, [](const Copy& copy) {
    return std::tie(copy.is_draining, copy.far, copy.load, copy.id);
  });
  if (copies.size() > most) copies.resize(most);
  std::vector<std::uint32_t> places;
  for (const auto& copy : copies) places.push_back(copy.place);
  return places;
}

}  // namespace warren::balance
