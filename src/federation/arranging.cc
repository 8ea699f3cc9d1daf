// What a decision waits for: an answer of other clusters, or a pull that is arranged.
#include "balance/view.h"
#include "base/log.h"
#include "federation/choices.h"
#include "federation/core.h"

namespace warren::federation {

namespace {

constexpr auto memory = 5s;  // of what was asked, also of nothing

}  // namespace

std::optional<std::string> Federation::Core::address_of(const std::string& cluster_id) const {
  auto addresses = view.addresses(Clock::now());
  auto peer = peers_.find(cluster_id);
  if (peer != peers_.end() && !peer->second.terms.addresses.empty())
    return peer->second.terms.addresses.front();
  auto known = addresses.find(cluster_id);
  if (known == addresses.end()) return {};
  return known->second;
}

awaitable<void> Federation::Core::ask_around(PlaceQuery query, std::string key,
                                             Clock::time_point deadline) {
  Asking asking(executor);
  auto ask_all = [](TaskGroup& group, Core& core, PlaceQuery& q, Asking& to,
                    Clock::time_point& until) -> awaitable<bool> {
    for (const auto& [cluster_id, peer] : core.peers_) {
      if (!q.tenant.empty() && !core.shares(cluster_id, q.tenant)) continue;
      ++to.missing;
      group.start("federation.query", core.ask_peer(cluster_id, q, to, until));
    }
    while (to.missing > 0 && Clock::now() < until) co_await to.answered.wait(until);
    co_return true;
  };
  bool asked = co_await with_group(ask_all, *this, query, asking, deadline);
  ensure(asked, "all were asked");
  auto& memo = asking.memo;
  keep_best(memo.remote);
  memo.until = Clock::now() + memory;
  if (asked_.size() >= most_memos)
    std::erase_if(asked_, [](const auto& each) { return each.second.until <= Clock::now(); });
  if (asked_.size() < most_memos) asked_.insert_or_assign(memo_key(query), std::move(memo));
  if (auto flight = flights_.extract(key)) flight.mapped()->notify();
}

awaitable<void> Federation::Core::ask_peer(std::string cluster_id, PlaceQuery query, Asking& asking,
                                           Clock::time_point deadline) {
  struct Answered {
    Asking& asking;
    ~Answered() {
      --asking.missing;
      asking.answered.notify();
    }
  } answered{asking};
  auto address = address_of(cluster_id);
  if (!address) co_return;
  StreamQuery question{query.stream, self(), query.tenant, query.latitude, query.longitude, false};
  auto answer = co_await caller_.query(*address, std::move(question), deadline);
  if (!answer) {
    log::debug("federation.query_failed", "peer", cluster_id, "why", answer.error().what);
    co_return;
  }
  auto weights = balance::weights_of(cluster.table_here());
  for (const auto& each : answer->candidates) {
    auto score = balance::score_remote(weights, measured(each.edge), query.latitude,
                                       query.longitude, query.policy);
    if (score == 0) continue;
    auto url =
        answer->public_url.empty() ? "https://" + host_of(each.edge.base_url) : answer->public_url;
    asking.memo.remote.push_back({cluster_id, each.edge.node_id, each.edge.base_url, each.dtsc_url,
                                  url, each.is_origin, score});
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
    for (int i = 0; i < 20 && !view.pulled(Clock::now(), query.stream); ++i)
      co_await sleep_for(50ms);
    if (view.pulled(Clock::now(), query.stream)) co_return ok;
    co_return std::unexpected(lease.error());
  }
  if (view.pulled(Clock::now(), query.stream)) co_return ok;
  auto address = address_of(from.cluster);
  if (!address) co_return fail(Errc::unavailable, "no address of {} is known", from.cluster);
  PullRequest request{query.stream, from.node_id, self(), node, query.tenant};
  auto answer = co_await caller_.pull(*address, std::move(request), deadline);
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

}  // namespace warren::federation
