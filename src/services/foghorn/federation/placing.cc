// Where a viewer goes: here, to another cluster, or here with the stream pulled from there.
#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "net/http/target.h"
#include "services/foghorn/balance/view.h"
#include "services/foghorn/federation/core.h"

namespace warren::federation {

namespace {

constexpr std::size_t most_remotes = 5;
constexpr auto memory = 5s;     // of what was asked, also of nothing
constexpr auto ask_limit = 3s;  // for one question to all peers
constexpr std::size_t most_memos = 10'000;
constexpr std::size_t most_flights = 256;

void sort(std::vector<RemoteChoice>& remote) {
  std::sort(remote.begin(), remote.end(), [](const auto& a, const auto& b) {
    return std::tie(b.score, a.cluster, a.node_id) < std::tie(a.score, b.cluster, b.node_id);
  });
  if (remote.size() > most_remotes) remote.resize(most_remotes);
}

balance::RemoteEdge measured(const EdgeTelemetry& edge) {
  return {edge.cpu_percent, edge.ram_used, edge.ram_max, edge.bw_available,
          edge.bw_limit,    edge.geo_lat,  edge.geo_lon};
}

// Of what is left of the time, so that one address which says nothing leaves some for the others.
Clock::time_point share_of(Clock::time_point deadline, std::size_t addresses) {
  auto now = Clock::now();
  return now + std::max(deadline - now, Clock::duration(0)) / long(addresses);
}

// Also a refusal is an answer, which the others would repeat.
template <class Answer>
bool has_answered(const Result<Answer>& answer) {
  return answer ||
         (answer.error().code != Errc::unavailable && answer.error().code != Errc::timeout);
}

std::string memo_key(const Owner& owner, const std::string& stream) {
  return owner.value_or("") + "\n" + stream;
}

}  // namespace

std::string Placement::redirect_url(std::string_view view_key, std::string_view own_cluster) const {
  if (remote.empty()) return {};
  return fmt::format("{}/play/{}?from={}", remote.front().play_url, percent_encoded(view_key),
                     percent_encoded(own_cluster));
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
                                                          const PlaceQuery& query,
                                                          const Owner& owner) const {
  std::vector<RemoteChoice> remote;
  auto weights = balance::weights_of(cluster.table_here());
  for (const auto& [peer, ad] : view.ads(now, query.stream)) {
    std::string cluster_id(peer);
    if (!may_serve(cluster_id, owner, ad->tenant_id)) continue;
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
  sort(remote);
  return remote;
}

// What peers answered in the last seconds. No value: they must be asked.
std::optional<std::vector<RemoteChoice>> Federation::Core::remembered(Clock::time_point now,
                                                                      const std::string& stream,
                                                                      const Owner& owner) const {
  auto asked = asked_.find(memo_key(owner, stream));
  if (asked == asked_.end() || asked->second.until <= now) return std::nullopt;
  auto remote = asked->second.remote;
  std::erase_if(remote, [&](const auto& each) { return !may_serve(each.cluster, owner); });
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

// A pull whose node is gone since leads nowhere: another one takes its place.
const ActiveReplication* Federation::Core::under_way(Clock::time_point now,
                                                     const std::string& stream,
                                                     const balance::RoutingTable& table,
                                                     const Owner& owner) const {
  const auto* pulled = view.pulled(now, stream);
  if (pulled && !may_serve(pulled->source_cluster, owner)) return nullptr;
  auto place = pulled ? balance::place_of(table, pulled->dest_node_id) : std::nullopt;
  const auto* node = place ? balance::node_at(table, *place) : nullptr;
  return node && node->is_healthy && !node->is_stale ? pulled : nullptr;
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
  auto owner = owner_of(*placement.table, query.stream, query.tenant);
  if (const auto* pulled = under_way(now, query.stream, *placement.table, owner)) {
    // It is on its way here: whoever comes waits where it will be.
    if (!placement.local.empty()) return here();
    placement.way = Way::pull;
    placement.node_id = pulled->dest_node_id;
    placement.remote.push_back({pulled->source_cluster, pulled->source_node_id, pulled->base_url,
                                pulled->dtsc_url,
                                play_url(pulled->source_cluster, pulled->base_url), true, 0});
    return placement;
  }
  placement.remote = known_remotes(now, query, owner);
  if (placement.remote.empty()) {
    if (!placement.local.empty() || peers_.empty()) return here();
    auto answered = remembered(now, query.stream, owner);
    if (!answered) return {};
    placement.remote = *std::move(answered);
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
    auto owner = owner_of(cluster.table_here(), query.stream, query.tenant);
    auto remote = known_remotes(now, query, owner);
    if (remote.empty())
      if (auto answered = remembered(now, query.stream, owner)) remote = *std::move(answered);
    std::erase_if(remote, [&](const auto& each) { return !can_pull(now, query.stream, each); });
    auto key = remote.empty() ? "ask " + memo_key(owner, query.stream) : "pull " + query.stream;
    auto& flight = flights_[key];
    auto landed = flight;
    if (!landed) {
      if (flights_.size() > most_flights) {
        flights_.erase(key);
        break;
      }
      flight = landed = std::make_shared<Event>(executor);
      if (remote.empty())
        calls_.start("federation.ask", ask_around(query, owner, key, now + ask_limit));
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
  auto owner = owner_of(*placement.table, query.stream, query.tenant);
  placement.remote = known_remotes(Clock::now(), query, owner);
  if (!placement.local.empty()) {
    placement.way = Way::local;
    placement.node_id = balance::node_at(*placement.table, placement.local.best[0].node)->id;
  } else if (!placement.remote.empty()) {
    placement.way = Way::redirect;
  }
  co_return placement;
}

// Where it may be asked: the one that answered last, those that we were told, the one in Redis.
std::vector<std::string> Federation::Core::addresses_of(const std::string& cluster_id) const {
  std::vector<std::string> all;
  auto add = [&](const std::string& address) {
    bool is_new = std::find(all.begin(), all.end(), address) == all.end();
    if (is_address(address) && is_new) all.push_back(address);
  };
  if (auto peer = peers_.find(cluster_id); peer != peers_.end()) {
    add(peer->second.good_address);
    add(peer->second.announced.value_or(""));
    for (const auto& address : peer->second.terms.addresses) add(address);
  }
  auto shared = view.addresses(Clock::now());
  if (auto known = shared.find(cluster_id); known != shared.end()) add(known->second);
  return all;
}

void Federation::Core::remember_address(const std::string& cluster_id, const std::string& address) {
  if (auto peer = peers_.find(cluster_id); peer != peers_.end())
    peer->second.good_address = address;
}

awaitable<void> Federation::Core::ask_around(PlaceQuery query, Owner owner, std::string key,
                                             Clock::time_point deadline) {
  Memo memo;
  auto executor_here = co_await asio::this_coro::executor;
  Answers answers{Event(executor_here)};
  auto ask_all = [](TaskGroup& asking, Core& core, PlaceQuery& q, Owner& of, Memo& to,
                    Answers& missing, Clock::time_point& until) -> awaitable<bool> {
    for (const auto& [cluster_id, peer] : core.peers_) {
      if (!core.may_serve(cluster_id, of)) continue;
      ++missing.count;
      asking.start("federation.query", core.ask_peer(cluster_id, q, of, to, missing, until));
    }
    while (missing.count > 0 && Clock::now() < until) co_await missing.came.wait(until);
    co_return true;
  };
  bool asked = co_await with_group(ask_all, *this, query, owner, memo, answers, deadline);
  ensure(asked, "all were asked");
  sort(memo.remote);
  memo.until = Clock::now() + memory;
  if (asked_.size() >= most_memos)
    std::erase_if(asked_, [](const auto& each) { return each.second.until <= Clock::now(); });
  if (asked_.size() >= most_memos) asked_.erase(asked_.begin());
  asked_.insert_or_assign(memo_key(owner, query.stream), std::move(memo));
  if (auto flight = flights_.extract(key)) flight.mapped()->notify();
}

awaitable<void> Federation::Core::ask_peer(std::string cluster_id, PlaceQuery query, Owner owner,
                                           Memo& memo, Answers& answers,
                                           Clock::time_point deadline) {
  struct Told {  // however it ends
    Answers& to;
    ~Told() {
      --to.count;
      to.came.notify();
    }
  } told{answers};
  StreamQuery question{query.stream,   self(),          owner.value_or(""),
                       query.latitude, query.longitude, false};
  Result<StreamAnswer> answer = fail(Errc::unavailable, "no address is known");
  auto addresses = addresses_of(cluster_id);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    auto until = share_of(deadline, addresses.size() - i);
    answer = co_await caller_.query(cluster_id, addresses[i], question, until);
    if (has_answered(answer)) {
      remember_address(cluster_id, addresses[i]);
      break;
    }
  }
  if (!answer) {
    log::debug("federation.query_failed", "peer", cluster_id, "why", answer.error().what);
    co_return;
  }
  auto weights = balance::weights_of(cluster.table_here());
  for (const auto& each : answer->candidates) {
    const auto& dedicated_to = each.edge.tenant_id;
    if (!dedicated_to.empty() && !may_serve(cluster_id, owner, dedicated_to)) continue;
    auto score = balance::score_remote(weights, measured(each.edge), query.latitude,
                                       query.longitude, query.policy);
    if (score == 0) continue;
    auto url =
        answer->public_url.empty() ? "https://" + host_of(each.edge.base_url) : answer->public_url;
    memo.remote.push_back({cluster_id, each.edge.node_id, each.edge.base_url, each.dtsc_url, url,
                           each.is_origin, score});
  }
}

awaitable<void> Federation::Core::arrange(PlaceQuery query, RemoteChoice from,
                                          Clock::time_point deadline) {
  auto stream = query.stream;
  auto arranged = co_await with_deadline(deadline, try_arrange(std::move(query), from, deadline));
  if (!arranged) {
    log::info("federation.pull_refused", "stream", stream, "from", from.cluster, "why",
              arranged.error().what);
    if (refused_pulls_.size() >= most_memos) refused_pulls_.clear();
    refused_pulls_[stream] = Clock::now() + memory;
  }
  if (auto flight = flights_.extract("pull " + stream)) flight.mapped()->notify();
}

Async<> Federation::Core::try_arrange(PlaceQuery query, RemoteChoice from,
                                      Clock::time_point deadline) {
  auto table = cluster.table();
  auto owner = owner_of(*table, query.stream, query.tenant);
  if (!may_serve(from.cluster, owner))
    co_return fail(Errc::refused, "the tenant of the stream is not shared with {}", from.cluster);
  auto any = local_query(query);
  any.stream = {};
  auto edges = balance::choose(*table, any);
  if (edges.empty()) co_return fail(Errc::not_found, "no node of this cluster can take it");
  auto node = balance::node_at(*table, edges.best[0].node)->id;
  // One instance of the cluster arranges; the others find what it arranged.
  LeaseTerms lock{pull_lock_key(self(), query.stream), cluster.terms().instance_id, 15s};
  auto lease = co_await session.try_acquire(std::move(lock));
  if (!lease) {
    if (lease.error().code != Errc::held_elsewhere) co_return std::unexpected(lease.error());
    auto until = Clock::now() + 1s;
    while (!under_way(Clock::now(), query.stream, *table, owner) && Clock::now() < until)
      co_await changed.wait(until);
    if (under_way(Clock::now(), query.stream, *table, owner)) co_return ok;
    co_return std::unexpected(lease.error());
  }
  if (under_way(Clock::now(), query.stream, *table, owner)) co_return ok;
  PullRequest request{query.stream, from.node_id, self(), node, owner.value_or("")};
  Result<PullAnswer> answer = fail(Errc::unavailable, "no address of {} is known", from.cluster);
  auto addresses = addresses_of(from.cluster);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    auto until = share_of(deadline, addresses.size() - i);
    answer = co_await caller_.pull(from.cluster, addresses[i], request, until);
    if (has_answered(answer)) {
      remember_address(from.cluster, addresses[i]);
      break;
    }
  }
  if (!answer) co_return std::unexpected(answer.error());
  if (!answer->is_accepted) co_return fail(Errc::refused, "{}", answer->reason);
  ActiveReplication pulled{
      query.stream, answer->source_node, from.cluster,     self(),
      node,         answer->dtsc_url,    answer->base_url, iso8601(WallClock::now())};
  std::vector<Record> records;
  records.push_back(record_of({to_string(lease->token()), WallClock::now()}, self(), pulled));
  auto record = records.front();
  auto written = co_await writer_.write(std::move(records), &*lease);
  if (!written) co_return written;
  auto now = Clock::now();
  auto known = view.put(now, record, now + ttl_of(record.kind));
  if (!known) co_return known;
  changed.notify();
  log::info("federation.pull_arranged", "stream", query.stream, "from", from.cluster, "node", node);
  co_return ok;
}

std::optional<std::string> Federation::Core::source_of(const std::string& stream) const {
  auto now = Clock::now();
  auto owner = owner_of(cluster.table_here(), stream, "");
  const auto* pulled = view.pulled(now, stream);
  if (pulled && may_serve(pulled->source_cluster, owner)) return pulled->dtsc_url;
  for (const auto& [peer, ad] : view.ads(now, stream)) {
    if (!may_serve(std::string(peer), owner, ad->tenant_id)) continue;
    for (const auto& edge : ad->edges)
      if (edge.is_origin && !edge.dtsc_url.empty()) return edge.dtsc_url;
  }
  return {};
}

std::optional<std::string> Federation::Core::ingested_at(const std::string& stream) const {
  const auto* live = view.live(Clock::now(), stream);
  if (!live || live->cluster_id == self()) return {};
  auto owner = owner_of(cluster.table_here(), stream, "");
  if (!may_serve(live->cluster_id, owner, live->tenant_id)) return {};
  return live->cluster_id;
}

std::optional<std::string> Federation::Core::stream_of_playback(const std::string& id) const {
  for (const auto& [peer, ad] : view.ads_of_playback(Clock::now(), id)) {
    auto owner = owner_of(cluster.table_here(), ad->internal_name, "");
    if (may_serve(std::string(peer), owner, ad->tenant_id)) return ad->internal_name;
  }
  return {};
}

std::vector<RemoteChoice> Federation::Core::artifact_at(const std::string& id, double lat,
                                                        double lon) const {
  Owner owner;  // as this cluster knows it, if it stores the content, too
  if (auto known = cluster.artifact(id); known && !tenant_of(*known).empty())
    owner = tenant_of(*known);
  std::vector<std::pair<double, RemoteChoice>> found;
  for (const auto& [peer, artifact] : view.artifacts(Clock::now(), id)) {
    std::string cluster_id(peer);
    if (!may_serve(cluster_id, owner, artifact->tenant_id)) continue;
    bool is_known =
        balance::is_place(lat, lon) && balance::is_place(artifact->geo_lat, artifact->geo_lon);
    auto far = is_known ? balance::distance(lat, lon, artifact->geo_lat, artifact->geo_lon) : 0.5;
    found.push_back({far,
                     {cluster_id, artifact->node_id, artifact->base_url, "",
                      play_url(cluster_id, artifact->base_url), false, 0}});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.cluster, a.second.node_id) <
           std::tie(b.first, b.second.cluster, b.second.node_id);
  });
  std::vector<RemoteChoice> nearest;
  for (auto& each : found)
    if (nearest.size() < most_remotes) nearest.push_back(std::move(each.second));
  return nearest;
}

}  // namespace warren::federation
