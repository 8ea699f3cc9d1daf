// What only the leader does: it holds the channels, writes what it hears, and sweeps.
#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "base/log.h"
#include "services/foghorn/balance/view.h"
#include "services/foghorn/federation/core.h"

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
  for (auto& [cluster_id, peer] : peers_) peer.alone_since = Clock::now();
  offer_.reset();
  changed.notify();
  // What an earlier leader heard is there for a while.
  auto loaded = co_await follower_.load();
  if (!loaded) log::warn("federation.load_failed", "why", loaded.error().what);
  auto lead = [](TaskGroup& dialling, Core& core, Lease& lease) -> awaitable<bool> {
    co_await (core.writer_.run(lease) && core.tell_offers() && core.look_after(lease) &&
              core.sweep() && core.dial_peers(dialling));
    co_return true;
  };
  auto ended = co_await with_group(lead, *this, *term.lease);
  co_return ended ? Result<>(ok) : fail(Errc::cancelled, "");
}

void Federation::Core::end_term() {
  is_leading_ = false;
  writer_.drop();
  for (auto& [cluster_id, peer] : peers_) {
    peer.dial = 0;
    peer.announced.reset();  // the next leader hears it, and Redis has it
    for (auto& link : peer.links()) link->wire->finish({Errc::unavailable, "no longer the leader"});
  }
  changed.notify();
}

// Others are told of a change a moment later, together with what changes meanwhile; the more there
// is to tell, the longer the moment.
awaitable<void> Federation::Core::tell_offers() {
  for (;;) {
    auto began = Clock::now();
    auto revision = cluster.revision();
    bool is_wanted = std::any_of(peers_.begin(), peers_.end(),
                                 [](const auto& each) { return !each.second.links().empty(); });
    offer_ = is_wanted ? advertiser_.make(began) : nullptr;  // a link that opens makes its own
    for (auto& [cluster_id, peer] : peers_) {
      for (auto& link : peer.links()) {
        link->session.offer(Clock::now(), offer_);
        link->wake.notify();
      }
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
    if (known) write_addresses(*known);
    co_await announced_.wait(Clock::now() + terms.address_interval);
  }
}

// Ours, and of each peer the one that its leader announced. Of a peer that has not greeted us yet,
// what is there stays: our last leader may have heard it, or somebody put it there. Who announced
// none is where we were told. Who is no peer is left alone; who is none any more is taken out.
void Federation::Core::write_addresses(const redis::Reply& known) {
  boost::json::object addresses;
  for (const auto& [cluster_id, address] : written_addresses_) addresses[cluster_id] = nullptr;
  written_addresses_.clear();
  if (!terms.address.empty()) written_addresses_[self()] = terms.address;
  for (std::size_t i = 0; i + 1 < known.items.size(); i += 2) {
    const auto &cluster_id = known.items[i].text, &address = known.items[i + 1].text;
    if (peers_.contains(cluster_id) && is_address(address))
      written_addresses_[cluster_id] = address;
  }
  for (const auto& [cluster_id, peer] : peers_) {
    auto& written = written_addresses_[cluster_id];
    if (peer.announced && !peer.announced->empty())
      written = *peer.announced;
    else if (!peer.terms.addresses.empty() && (peer.announced || written.empty()))
      written = peer.terms.addresses.front();
    if (written.empty()) written_addresses_.erase(cluster_id);
  }
  for (const auto& [cluster_id, address] : written_addresses_) addresses[cluster_id] = address;
  if (!addresses.empty()) take({Kind::peer_addresses, "", boost::json::serialize(addresses)});
}

awaitable<void> Federation::Core::sweep() {
  for (;;) {
    if (election.is_leader()) cluster.sweep();
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
    auto attempt = stream + " " + pull->dest_node_id;
    under_way.insert(attempt);
    auto began = pulls_seen_.try_emplace(attempt, now).first->second;
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
    take({Kind::active_replications, std::move(stream), {}});
  }
}

// Every instance says where it is, and asks who the peers are: any of them answers calls, and one
// that does not lead sends channels on to the one that does.
awaitable<void> Federation::Core::ask_registry() {
  while (!terms.registry.empty()) {
    bool leads = is_leading_;
    auto registered =
        co_await caller_.register_here(self(), cluster.terms().instance_id, Clock::now() + 10s);
    auto listed = co_await caller_.list_peers(self(), Clock::now() + 10s);
    if (!listed || !registered)
      log::warn("federation.registry_unavailable", "why",
                listed ? registered.error().what : listed.error().what);
    bool is_good = listed && registered;
    if (listed) adopt(*std::move(listed));
    auto until = Clock::now() + (is_good ? Clock::duration(terms.registry_interval) : 2s);
    while (Clock::now() < until && leads == is_leading_) co_await changed.wait(until);
  }
}

// What is configured here counts for more. Who shares no tenant is no peer, and neither is who is
// not listed any more. A channel was opened under terms, and ends with them.
void Federation::Core::adopt(std::vector<PeerTerms> listed) {
  std::set<std::string> names;
  for (auto& each : listed) {
    if (each.cluster == self() || each.tenants.empty()) continue;
    names.insert(each.cluster);
    auto& peer = peers_[each.cluster];
    if (peer.is_configured) continue;
    for (auto& link : peer.links())
      if (peer.terms.tenants != each.tenants)
        link->wire->finish({Errc::refused, "the tenants of this peer changed"});
    peer.terms = std::move(each);
  }
  for (auto at = peers_.begin(); at != peers_.end();) {
    const auto& [cluster_id, peer] = *at;
    if (peer.is_configured || names.contains(cluster_id)) {
      ++at;
      continue;
    }
    log::info("federation.peer_gone", "peer", cluster_id);
    for (auto& link : peer.links()) link->wire->finish({Errc::denied, "it is no peer any more"});
    at = peers_.erase(at);
  }
}

awaitable<void> Federation::Core::dial_peers(TaskGroup& dialling) {
  for (;;) {
    for (auto& [cluster_id, peer] : peers_) {
      if (peer.dial > 0) continue;
      peer.dial = ++dials_;
      dialling.start("federation.peer", dial_peer(cluster_id, peer.dial));
    }
    co_await sleep_for(500ms);
  }
}

awaitable<void> Federation::Core::dial_peer(std::string cluster_id, std::uint64_t dial_number) {
  // It may be gone after every wait, or be there again with another to dial it.
  auto current = [](Core& core, const std::string& name, std::uint64_t number) -> Peer* {
    auto peer = core.peers_.find(name);
    return peer != core.peers_.end() && peer->second.dial == number ? &peer->second : nullptr;
  };
  auto role = dialler_of(self(), cluster_id);
  Clock::duration backoff = 100ms;
  while (auto* peer = current(*this, cluster_id, dial_number)) {
    if (peer->link) {
      backoff = 100ms;
      co_await changed.wait(Clock::now() + 500ms);
      continue;
    }
    if (auto from = dials_from(role, peer->alone_since, terms); Clock::now() < from) {
      co_await sleep_until(from);
      continue;  // who was dialled may have dialled meanwhile
    }
    auto all = addresses_of(cluster_id);
    if (all.empty() && peer->hint.empty()) {
      peer->problem = "no address of it is known";
      co_await sleep_for(500ms);
      continue;
    }
    auto address = all.empty() ? std::string() : all[peer->next_address++ % all.size()];
    if (!peer->hint.empty()) address = std::exchange(peer->hint, {});
    auto wire = co_await dial(terms, self(), cluster_id, address);
    peer = current(*this, cluster_id, dial_number);
    if (!peer) co_return;
    if (!wire) {
      // Said once: it is tried again and again.
      if (wire.error().code == Errc::denied && peer->problem != wire.error().what)
        log::warn("federation.peer_unproven", "peer", cluster_id, "address", address, "why",
                  wire.error().what);
      peer->problem = wire.error().what;
    } else if (peer->link) {
      continue;  // it came while we dialled: nobody was greeted yet
    } else {
      auto link =
          std::make_shared<Link>(terms, self(), peer->terms, hello(), *wire, role, executor);
      auto began = Clock::now();
      co_await serve(link);
      // Who stayed for a while gets another try at once.
      if (Clock::now() - began > 5s) backoff = 100ms;
    }
    auto* after = current(*this, cluster_id, dial_number);
    if (after && !after->hint.empty() && backoff < 1s) {
      backoff *= 2;
      continue;
    }
    co_await sleep_for(backoff);
    backoff = std::min<Clock::duration>(2 * backoff, terms.longest_backoff);
  }
}

}  // namespace warren::federation
