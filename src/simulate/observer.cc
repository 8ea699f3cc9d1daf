#include "simulate/observer.h"

#include "balance/view.h"

namespace warren::simulate {

namespace {

constexpr auto stale_after = 90s;
constexpr double gib = 1024.0 * 1024 * 1024;

balance::NodeFacts facts_of(const WorldNode& node) {
  balance::NodeFacts facts;
  facts.id = node.id;
  facts.is_healthy = true;
  facts.is_stale = false;
  facts.mode = node.mode;
  facts.latitude = node.place.latitude;
  facts.longitude = node.place.longitude;
  auto load = std::min(1.0, node.load());
  facts.cpu_percent = 5 + 75 * load;
  facts.ram_max = 64 * gib;
  facts.ram_current = (8 + 24 * load) * gib;
  facts.up_speed = std::min(node.up_speed(), node.limit);  // no line carries more
  facts.bw_limit = node.limit;
  facts.cap_edge = true;
  facts.connections = static_cast<std::uint64_t>(node.connections);
  return facts;
}

}  // namespace

Observer::Observer() : viewers_([this](std::string_view node) { return builder_.penalty(node); }) {}

void Observer::hear(Clock::time_point now, const World& world, const WorldNode& node) {
  auto& known = nodes_[node.id];
  known.facts = facts_of(node);
  known.heard_at = now;
  builder_.put_node(known.facts);
  for (const auto& [stream, carried] : known.streams)
    if (!node.streams.contains(stream))
      builder_.erase_holding(world.streams[static_cast<std::size_t>(stream)], node.id);
  known.streams = node.streams;
  for (const auto& [stream, carried] : node.streams)
    builder_.put_holding(world.streams[static_cast<std::size_t>(stream)], node.id,
                         {.inputs = 1, .is_replicated = carried.is_replicated});
  viewers_.settle(now, node.id);
}

void Observer::lose(const WorldNode& node) {
  auto& facts = nodes_[node.id].facts;
  facts.is_healthy = false;
  facts.is_stale = true;
  builder_.put_node(facts);
  viewers_.forget(node.id);
}

void Observer::outdate(Clock::time_point now) {
  for (auto& [id, known] : nodes_) {
    if (known.facts.is_stale || now - known.heard_at < stale_after) continue;
    known.facts.is_stale = true;
    builder_.put_node(known.facts);
  }
}

std::optional<Observer::Sent> Observer::send(Clock::time_point now, const World& world,
                                             const Visit& visit, const std::string& address,
                                             balance::Policy policy) {
  auto table = builder_.publish();
  const auto& stream = world.streams[static_cast<std::size_t>(visit.stream)];
  balance::Query query;
  query.stream = stream;
  query.latitude = visit.place.latitude;
  query.longitude = visit.place.longitude;
  query.capabilities = "edge";
  query.most = 1;
  query.policy = policy;
  auto decision = choose(*table, query);
  if (decision.empty()) return std::nullopt;
  const auto& facts = *balance::node_at(*table, decision.best[0].node);
  auto estimate = foghorn::viewer_estimate(facts.up_speed, facts.connections);
  auto id = viewers_.redirect(now, facts.id, stream, address, estimate);
  auto index = std::stoul(facts.id.substr(facts.id.find('-') + 1));
  return Sent{index, std::move(id)};
}

void Observer::settle(Clock::time_point now, const WorldNode& node, const std::string& stream,
                      const std::string& correlation_id, const std::string& address) {
  viewers_.connected(now, node.id, stream, {correlation_id, address, address});
}

void Observer::arrived(const WorldNode& node) {
  const auto& facts = nodes_[node.id].facts;
  viewers_.arrived(node.id, foghorn::viewer_estimate(facts.up_speed, facts.connections));
}

void Observer::left(Clock::time_point now, const WorldNode& node, const std::string& stream,
                    const std::string& address) {
  viewers_.disconnected(now, node.id, stream, {"", address, address});
}

void Observer::set_peer_penalties(const std::map<std::string, std::uint64_t>& sums) {
  for (const auto& node : penalised_)
    if (auto penalty = builder_.penalty(node)) penalty->peer_bandwidth = 0;
  penalised_.clear();
  for (const auto& [node, sum] : sums) {
    auto penalty = builder_.penalty(node);
    if (!penalty) continue;
    penalty->peer_bandwidth = sum;
    penalised_.push_back(node);
  }
}

}  // namespace warren::simulate
