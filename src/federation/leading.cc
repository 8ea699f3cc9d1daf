// What only the leader does: it holds the channels, writes what it hears, and sweeps.
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "balance/view.h"
#include "base/log.h"
#include "federation/core.h"

namespace warren::federation {

using namespace asio::experimental::awaitable_operators;

namespace {

constexpr auto pull_patience = 30s;  // for a node to have what it was told to pull

}  // namespace

awaitable<void> Federation::Core::campaign() {
  std::function<Async<>(Term)> while_leading = [this](Term term) { return reign(term); };
  auto result = co_await election.campaign(std::move(while_leading));
  if (!result && result.error().code != Errc::cancelled)
    log::error("federation.campaign_failed", "why", result.error().what);
}

Async<> Federation::Core::reign(Term term) {
  struct Ending {
    Core& core;
    ~Ending() { core.end_term(); }
  } ending{*this};
  is_leading_ = true;
  token_ = term.token;
  offer_.reset();
  // What an earlier leader heard is there for a while.
  auto loaded = co_await follower_.load();
  if (!loaded) log::warn("federation.load_failed", "why", loaded.error().what);
  auto lead = [](TaskGroup& dialling, Core& core, Lease& lease) -> awaitable<bool> {
    co_await (core.writer_.run(lease) && core.tell_offers() && core.look_after(lease) &&
              core.sweep() && core.ask_registry() && core.dial_peers(dialling));
    co_return true;
  };
  auto ended = co_await with_group(lead, *this, *term.lease);
  co_return ended ? Result<>(ok) : fail(Errc::cancelled, "");
}

void Federation::Core::end_term() {
  is_leading_ = false;
  writer_.drop();
  for (auto& [cluster_id, peer] : peers_) {
    peer.is_dialled = false;
    if (peer.link) peer.link->wire->finish({Errc::unavailable, "no longer the leader"});
  }
  changed.notify();
}

// Others are told of a change a moment later, together with what changes meanwhile; the more there
// is to tell, the longer the moment.
awaitable<void> Federation::Core::tell_offers() {
  for (;;) {
    auto began = Clock::now();
    auto revision = cluster.revision();
    offer_ = advertiser_.make(began);
    for (auto& [cluster_id, peer] : peers_) {
      if (!peer.link) continue;
      peer.link->session.offer(Clock::now(), offer_);
      peer.link->wake.notify();
    }
    auto cost = Clock::now() - began;
    co_await sleep_for(std::max<Clock::duration>(terms.settle, 10 * cost));
    // Also without a change: what was told by others may be part of it, and so are samples.
    auto changes = [](foghorn::Cluster& of, std::uint64_t seen) -> awaitable<void> {
      co_await of.changed(seen);
    };
    co_await (changes(cluster, revision) || sleep_until(began + terms.telemetry_interval));
  }
}

awaitable<void> Federation::Core::look_after(Lease& lease) {
  for (;;) {
    if (lease.is_held()) token_ = lease.token();
    redis::Command read("HGETALL", key_of(self(), Record{Kind::peer_addresses, "", ""}));
    auto known = co_await client.ask(std::move(read), redis::CallOptions().idempotent());
    write_addresses(known ? *known : redis::Reply());
    co_await sleep_for(terms.address_interval);
  }
}

// Peers that others have put there are ours from now on; then all is written anew.
void Federation::Core::write_addresses(const redis::Reply& known) {
  for (std::size_t i = 0; i + 1 < known.items.size(); i += 2) {
    const auto& cluster_id = known.items[i].text;
    if (cluster_id == self() || written_addresses_.contains(cluster_id)) continue;
    if (!foghorn::check_id("peer", cluster_id)) continue;
    auto& peer = peers_[cluster_id];
    peer.terms.cluster = cluster_id;
    if (peer.terms.addresses.empty()) peer.terms.addresses.push_back(known.items[i + 1].text);
  }
  written_addresses_.clear();
  if (!terms.address.empty()) written_addresses_[self()] = terms.address;
  for (const auto& [cluster_id, peer] : peers_)
    if (!peer.terms.addresses.empty())
      written_addresses_[cluster_id] = peer.terms.addresses.front();
  boost::json::object addresses;
  for (const auto& [cluster_id, address] : written_addresses_) addresses[cluster_id] = address;
  Record record{Kind::peer_addresses, "", {}};
  if (!addresses.empty()) record.value = boost::json::serialize(addresses);
  take(std::move(record));
}

awaitable<void> Federation::Core::sweep() {
  for (;;) {
    cluster.sweep();
    check_pulls(Clock::now());
    co_await sleep_for(cluster.terms().sweep_interval);
  }
}

// What we pull is over when it is here, or when it does not come.
void Federation::Core::check_pulls(Clock::time_point now) {
  auto table = cluster.table();
  std::set<std::string> under_way;
  std::vector<std::string> over;
  for (const auto* pull : view.replications(now)) {
    if (pull->dest_cluster != self()) continue;
    const auto& stream = pull->stream_name;
    under_way.insert(stream);
    auto began = pulls_seen_.try_emplace(stream, now).first->second;
    bool is_here = false;
    for (const auto& holder : balance::holders(*table, stream)) {
      const auto* node = balance::node_at(*table, holder.node);
      is_here = is_here || (node && node->id == pull->dest_node_id && holder.holding.inputs > 0);
    }
    if (!is_here && now - began < pull_patience) continue;
    over.push_back(stream);
    if (is_here)
      log::info("federation.pulled", "stream", stream, "from", pull->source_cluster);
    else
      log::warn("federation.pull_failed", "stream", stream, "node", pull->dest_node_id);
  }
  std::erase_if(pulls_seen_, [&](const auto& each) { return !under_way.contains(each.first); });
  for (auto& stream : over) {
    pulls_seen_.erase(stream);
    take({Kind::active_replications, std::move(stream), {}});
  }
}

awaitable<void> Federation::Core::ask_registry() {
  while (terms.registry.empty()) co_await sleep_for(1h);
  for (;;) {
    auto listed = co_await caller_.register_here(
        terms.registry, self(), cluster.terms().instance_id, terms.address, Clock::now() + 10s);
    if (listed) {
      listed_.clear();
      for (auto& each : *listed) {
        if (each.cluster == self()) continue;
        listed_.insert(each.cluster);
        auto& peer = peers_[each.cluster];
        if (!peer.is_configured) peer.terms = std::move(each);
      }
    } else {
      log::warn("federation.registry_unavailable", "why", listed.error().what);
    }
    co_await sleep_for(listed ? Clock::duration(terms.registry_interval) : 2s);
  }
}

awaitable<void> Federation::Core::dial_peers(TaskGroup& dialling) {
  for (;;) {
    for (auto& [cluster_id, peer] : peers_) {
      // Of two clusters one dials.
      if (cluster_id < self() || peer.is_dialled || peer.terms.addresses.empty()) continue;
      peer.is_dialled = true;
      dialling.start("federation.peer", dial_peer(cluster_id));
    }
    co_await sleep_for(500ms);
  }
}

awaitable<void> Federation::Core::dial_peer(std::string cluster_id) {
  Clock::duration backoff = 100ms;
  for (;;) {
    auto& peer = peers_.at(cluster_id);
    const auto& all = peer.terms.addresses;
    auto address = all[peer.next_address++ % all.size()];
    if (!peer.hint.empty()) address = std::exchange(peer.hint, {});
    auto wire = dial(executor, terms, address);
    if (!wire) {
      peer.problem = wire.error().what;
    } else {
      auto link = std::make_shared<Link>(terms, self(), peer.terms, hello(), *wire, executor);
      auto began = Clock::now();
      co_await serve(link);
      // Who stayed for a while gets another try at once.
      if (Clock::now() - began > 5s) backoff = 100ms;
    }
    auto& after = peers_.at(cluster_id);
    if (!after.hint.empty() && backoff < 1s) {
      backoff *= 2;
      continue;
    }
    co_await sleep_for(backoff);
    backoff = std::min<Clock::duration>(2 * backoff, terms.longest_backoff);
  }
}

}  // namespace warren::federation
