#include "services/foghorn/simulate/observer.h"

#include "services/foghorn/balance/view.h"

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
  know(known, facts_of(node));
  known.heard_at = now;
  auto name = [&](int stream) { return world.streams[static_cast<std::size_t>(stream)]; };
  std::erase_if(known.streams, [&](int stream) {
    bool is_gone = !node.streams.contains(stream);
    if (is_gone) builder_.erase_holding(name(stream), node.id);
    return is_gone;
  });
  for (const auto& [stream, carried] : node.streams)
    if (known.streams.insert(stream).second)
      builder_.put_holding(name(stream), node.id,
                           {.inputs = 1, .is_replicated = carried.is_replicated});
  viewers_.settle(now, node.id);
}

void Observer::lose(const WorldNode& node) {
  auto& known = nodes_[node.id];
  auto facts = known.facts;
  facts.is_healthy = false;
  facts.is_stale = true;
  facts.up_speed = 0;
  facts.connections = 0;
  know(known, std::move(facts));
  viewers_.forget(node.id);
}

void Observer::know(Known& known, balance::NodeFacts facts) {
  up_speed_ += facts.up_speed - known.facts.up_speed;
  connections_ += facts.connections - known.facts.connections;
  known.facts = std::move(facts);
  builder_.put_node(known.facts);
}

std::uint64_t Observer::viewer_cost(const balance::NodeFacts& facts) const {
  if (facts.up_speed > 0 && facts.connections > 0)
    return foghorn::viewer_estimate(facts.up_speed, facts.connections);
  return foghorn::viewer_estimate(up_speed_, connections_);
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
  auto id = viewers_.redirect(now, facts.id, stream, address, viewer_cost(facts));
  auto index = std::stoul(facts.id.substr(facts.id.find('-') + 1));
  return Sent{index, std::move(id)};
}

void Observer::settle(Clock::time_point now, const WorldNode& node, const std::string& stream,
                      const std::string& correlation_id, const std::string& address) {
  viewers_.connected(now, node.id, stream, {correlation_id, address, address});
}

void Observer::arrived(const WorldNode& node) {
  viewers_.arrived(node.id, viewer_cost(nodes_[node.id].facts));
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
