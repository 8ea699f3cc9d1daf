// Where a viewer goes: here, to another cluster, or here with the stream pulled from there.
#include <algorithm>

#include "balance/view.h"
#include "federation/choices.h"
#include "federation/core.h"

namespace warren::federation {

namespace {

constexpr auto ask_limit = 3s;  // for one question to all peers
constexpr std::size_t most_flights = 256;

}  // namespace

std::string Placement::redirect_url(std::string_view view_key, std::string_view own_cluster) const {
  if (remote.empty()) return {};
  return fmt::format("{}/play/{}?from={}", remote.front().play_url, view_key, own_cluster);
}

balance::Query Federation::Core::local_query(const PlaceQuery& query) const {
  balance::Query local;
  local.stream = query.stream;
  local.latitude = query.latitude;
  local.longitude = query.longitude;
  local.adjustments = query.adjustments;
  local.client = query.client;
  local.capabilities = query.capabilities;
  local.tenant = query.tenant;
  local.policy = query.policy;
  return local;
}

std::string Federation::Core::play_url(const std::string& cluster_id,
                                       const std::string& base_url) const {
  const auto* heartbeat = view.heartbeat(Clock::now(), cluster_id);
  if (heartbeat && !heartbeat->public_url.empty()) {
    auto url = heartbeat->public_url;
    while (url.ends_with('/')) url.pop_back();
    return url;
  }
  return "https://" + host_of(base_url);
}

std::vector<RemoteChoice> Federation::Core::known_remotes(Clock::time_point now,
                                                          const PlaceQuery& query) const {
  std::vector<RemoteChoice> remote;
  auto weights = balance::weights_of(cluster.table_here());
  for (const auto& [peer, ad] : view.ads(now, query.stream)) {
    if (!query.tenant.empty() && !ad->tenant_id.empty() && ad->tenant_id != query.tenant) continue;
    std::string cluster_id(peer);
    for (const auto& edge : ad->edges) {
      const auto* measures = view.telemetry(now, cluster_id, edge.node_id);
      if (!measures) continue;  // it is not known how busy it is: it may be gone
      auto score = balance::score_remote(weights, measured(*measures), query.latitude,
                                         query.longitude, query.policy);
      if (score == 0) continue;
      remote.push_back({cluster_id, edge.node_id, edge.base_url, edge.dtsc_url,
                        play_url(cluster_id, edge.base_url), edge.is_origin, score});
    }
  }
  keep_best(remote);
  return remote;
}

// Not from where it is a copy itself: two clusters could end up with a copy of each other's.
bool Federation::Core::can_pull(Clock::time_point now, const std::string& stream,
                                const RemoteChoice& from) const {
  if (from.dtsc_url.empty() || !from.is_origin) return false;
  if (view.is_replicated_at(now, stream, from.cluster)) return false;
  auto refused = refused_pulls_.find(stream);
  return refused == refused_pulls_.end() || refused->second <= now;
}

std::optional<Placement> Federation::Core::place_now(const PlaceQuery& query) {
  auto now = Clock::now();
  Placement placement;
  placement.table = cluster.table();
  auto local = local_query(query);
  placement.local = balance::choose(*placement.table, local);
  auto here = [&] {
    placement.way = placement.local.empty() ? Way::nowhere : Way::local;
    if (!placement.local.empty())
      placement.node_id = balance::node_at(*placement.table, placement.local.best[0].node)->id;
    return placement;
  };
  if (!query.from_cluster.empty()) return here();
  if (const auto* pulled = view.pulled(now, query.stream)) {
    // It is on its way here: whoever comes waits where it will be.
    if (!placement.local.empty()) return here();
    auto place = balance::place_of(*placement.table, pulled->dest_node_id);
    const auto* node = place ? balance::node_at(*placement.table, *place) : nullptr;
    if (node && node->is_healthy && !node->is_stale) {
      placement.way = Way::pull;
      placement.node_id = node->id;
      placement.remote.push_back({pulled->source_cluster, pulled->source_node_id, pulled->base_url,
                                  pulled->dtsc_url,
                                  play_url(pulled->source_cluster, pulled->base_url), true, 0});
      return placement;
    }
  }
  placement.remote = known_remotes(now, query);
  if (placement.remote.empty()) {
    if (!placement.local.empty() || peers_.empty()) return here();
    auto asked = asked_.find(memo_key(query));
    if (asked == asked_.end() || asked->second.until <= now) return {};
    placement.remote = asked->second.remote;
    if (placement.remote.empty()) return here();
  }
  if (!placement.local.empty()) {
    // It is here already, so it is not pulled; a better place there may still be worth the way.
    if (placement.local.best[0].total >= placement.remote.front().score) return here();
  } else if (std::any_of(placement.remote.begin(), placement.remote.end(),
                         [&](const auto& each) { return can_pull(now, query.stream, each); })) {
    return {};
  }
  placement.way = Way::redirect;
  return placement;
}

// What is asked or arranged for one viewer serves all that come meanwhile, and goes on when the
// first one leaves.
Async<Placement> Federation::Core::place(PlaceQuery query, Clock::time_point deadline) {
  deadline = std::min(deadline, Clock::now() + ask_limit);
  for (int tries = 0;; ++tries) {
    auto placed = place_now(query);
    if (placed) co_return std::move(*placed);
    auto now = Clock::now();
    if (now >= deadline || is_closing_ || tries == 4) break;
    auto remote = known_remotes(now, query);
    if (remote.empty())
      if (auto asked = asked_.find(memo_key(query));
          asked != asked_.end() && asked->second.until > now)
        remote = asked->second.remote;
    std::erase_if(remote, [&](const auto& each) { return !can_pull(now, query.stream, each); });
    auto key = remote.empty() ? "ask " + memo_key(query) : "pull " + query.stream;
    auto& flight = flights_[key];
    auto landed = flight;
    if (!landed) {
      if (flights_.size() > most_flights) {
        flights_.erase(key);
        break;
      }
      flight = landed = std::make_shared<Event>(executor);
      if (remote.empty())
        calls_.start("federation.ask", ask_around(query, key, now + ask_limit));
      else
        calls_.start("federation.arrange", arrange(query, remote.front(), now + ask_limit));
    }
    if (!flights_.contains(key)) continue;  // it had nothing to wait for
    co_await landed->wait(deadline);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "nobody waits for the placement");
  }
  // Nobody answered in time: what is here, or what is known.
  Placement placement;
  placement.table = cluster.table();
  placement.local = balance::choose(*placement.table, local_query(query));
  placement.remote = known_remotes(Clock::now(), query);
  if (!placement.local.empty()) {
    placement.way = Way::local;
    placement.node_id = balance::node_at(*placement.table, placement.local.best[0].node)->id;
  } else if (!placement.remote.empty()) {
    placement.way = Way::redirect;
  }
  co_return placement;
}

std::optional<std::string> Federation::Core::source_of(const std::string& stream) const {
  auto now = Clock::now();
  if (const auto* pulled = view.pulled(now, stream)) return pulled->dtsc_url;
  for (const auto& [peer, ad] : view.ads(now, stream))
    for (const auto& edge : ad->edges)
      if (edge.is_origin && !edge.dtsc_url.empty()) return edge.dtsc_url;
  return {};
}

std::vector<RemoteChoice> Federation::Core::artifact_at(const std::string& id, double lat,
                                                        double lon) const {
  std::vector<std::pair<double, RemoteChoice>> found;
  for (const auto& [peer, artifact] : view.artifacts(Clock::now(), id)) {
    bool is_known =
        balance::is_place(lat, lon) && balance::is_place(artifact->geo_lat, artifact->geo_lon);
    auto far = is_known ? balance::distance(lat, lon, artifact->geo_lat, artifact->geo_lon) : 0.5;
    std::string cluster_id(peer);
    found.push_back({far,
                     {cluster_id, artifact->node_id, artifact->base_url, "",
                      play_url(cluster_id, artifact->base_url), false, 0}});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<RemoteChoice> nearest;
  for (auto& each : found)
    if (nearest.size() < most_remotes) nearest.push_back(std::move(each.second));
  return nearest;
}

}  // namespace warren::federation
