#include "naive_balancer.h"

#include <algorithm>
#include <cmath>

namespace warren::bench {

using namespace balance;

void NaiveBalancer::put_node(NodeFacts facts) {
  std::lock_guard lock(mutex_);
  auto& node = nodes_[facts.id];
  node.facts = std::move(facts);
}

void NaiveBalancer::put_holding(const std::string& stream, const std::string& node,
                                Holding holding) {
  std::lock_guard lock(mutex_);
  nodes_[node].streams[stream] = holding;
}

std::vector<std::string> NaiveBalancer::choose(const Query& query) {
  std::vector<Node> all;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, node] : nodes_) all.push_back(node);
  }
  std::string stream(query.stream);
  bool can_pull = query.policy == Policy::fair && std::ranges::any_of(all, [&](const Node& node) {
                    auto holding = node.streams.find(stream);
                    return holding != node.streams.end() && holding->second.inputs > 0;
                  });
  std::erase_if(all, [&](Node& node) { return !rate(node, query, can_pull); });
  std::ranges::sort(all, [](const Node& a, const Node& b) {
    return a.score != b.score ? a.score > b.score : a.facts.id < b.facts.id;
  });
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < all.size() && i < query.most; ++i) ids.push_back(all[i].facts.id);
  return ids;
}

bool NaiveBalancer::rate(Node& node, const Query& query, bool can_pull) {
  const auto& facts = node.facts;
  if (!facts.is_healthy || facts.is_stale || facts.mode != NodeMode::normal) return false;
  if (facts.ram_max == 0 || facts.bw_limit == 0 || facts.up_speed >= facts.bw_limit) return false;
  auto holding = node.streams.find(std::string(query.stream));
  bool has_stream = holding != node.streams.end() && holding->second.inputs > 0;
  if (!has_stream && !can_pull) return false;
  Weights weights;
  auto part = [](std::uint64_t weight, double used, double max) {
    return weight - static_cast<std::uint64_t>(used) * weight / static_cast<std::uint64_t>(max);
  };
  node.score = part(weights.cpu, facts.cpu_percent * 10, 1000) +
               part(weights.ram, facts.ram_current, facts.ram_max) +
               part(weights.bw, facts.up_speed, facts.bw_limit) + weights.geo -
               static_cast<std::uint64_t>(1000 * distance(query.latitude, query.longitude,
                                                          facts.latitude, facts.longitude)) +
               (has_stream ? weights.bonus : 0);
  return true;
}

}  // namespace warren::bench
