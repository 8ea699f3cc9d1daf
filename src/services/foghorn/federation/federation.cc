#include "services/foghorn/federation/federation.h"

#include <grpcpp/impl/codegen/service_type.h>

#include "base/log.h"
#include "services/foghorn/federation/core.h"

namespace warren::federation {

Federation::Core::Core(asio::any_io_executor on, redis::Client& with, LeaseSession& leases,
                       foghorn::Cluster& of, FederationTerms how)
    : executor(on),
      client(with),
      session(leases),
      cluster(of),
      terms(std::move(how)),
      election(leases, {leader_key(of.terms().cluster_id), of.terms().instance_id, terms.leader_ttl,
                        false}),
      changed(on),
      service(make_service(on, terms, of.terms().cluster_id, *this)),
      writer_(with, of.terms().cluster_id, of.terms().instance_id),
      follower_(with, of.terms().cluster_id, of.terms().instance_id, terms, view),
      caller_(terms),
      advertiser_(of, view, terms, Clock::now()),
      announced_(on),
      tasks_(on),
      calls_(on) {
  for (const auto& peer : terms.peers) {
    auto& known = peers_[peer.cluster];
    known.terms = peer;
    known.is_configured = true;
  }
}

Federation::Core::~Core() = default;

void Federation::Core::start() {
  auto tell = [this] { changed.notify(); };
  tasks_.start("federation.listener", follower_.listen(tell));
  tasks_.start("federation.follower",
               follower_.look_now_and_then([this] { return !is_leading_; }, tell));
  tasks_.start("federation.expiry", forget_what_expired());
  tasks_.start("federation.registry", ask_registry());
  tasks_.start("federation.campaign", campaign());
}

awaitable<void> Federation::Core::forget_what_expired() {
  for (;;) {
    co_await sleep_for(1s);
    view.expire(Clock::now());
  }
}

// Peers hear that we leave, so that they turn to the next leader at once.
awaitable<void> Federation::Core::close() {
  if (is_closing_) co_return;
  is_closing_ = true;
  for (auto& [cluster_id, peer] : peers_) {
    for (auto& link : peer.links()) {
      link->session.leave("this instance is closing", "");
      link->wake.notify();
    }
  }
  auto has_link = [this] {
    for (const auto& [cluster_id, peer] : peers_)
      if (!peer.links().empty()) return true;
    return false;
  };
  for (auto until = Clock::now() + 300ms; has_link() && Clock::now() < until;)
    co_await changed.wait(until);
  tasks_.stop();
  calls_.stop();
  co_await follower_.close();
  co_await tasks_.join();
  co_await calls_.join();
  for (auto& [key, flight] : flights_) flight->notify();
  flights_.clear();
}

std::vector<PeerView> Federation::Core::peer_views() const {
  std::vector<PeerView> all;
  auto now = Clock::now();
  auto names = view.peers();
  std::set<std::string> clusters(names.begin(), names.end());
  for (const auto& [cluster_id, peer] : peers_) clusters.insert(cluster_id);
  for (const auto& cluster_id : clusters) {
    PeerView shown;
    shown.cluster = cluster_id;
    if (auto peer = peers_.find(cluster_id); peer != peers_.end()) {
      const auto& known = peer->second;
      shown.addresses = known.terms.addresses;
      shown.is_connected = bool(known.link);
      if (is_leading_ && !shown.is_connected && !known.problem.empty())
        shown.problem = known.problem;
      auto counters = known.link ? known.link->session.counters() : PeerSession::Counters{};
      shown.frames_in = known.past.frames_in + counters.frames_in;
      shown.frames_out = known.past.frames_out + counters.frames_out;
      shown.frames_dropped = known.past.dropped + counters.dropped;
      shown.resyncs = known.past.resyncs + counters.resyncs;
    }
    if (const auto* heartbeat = view.heartbeat(now, cluster_id)) shown.heartbeat = *heartbeat;
    auto counts = view.counts(cluster_id);
    shown.streams = counts[Kind::stream_ad];
    shown.edges = counts[Kind::remote_edges];
    shown.artifacts = counts[Kind::remote_artifacts];
    all.push_back(std::move(shown));
  }
  return all;
}

std::shared_ptr<void> Federation::Core::publish(Metrics& metrics) const {
  return metrics.on_collect(
      [this, leads = metrics.gauge("warren_federation_is_leader", "1 where this instance leads."),
       channels = metrics.gauge("warren_federation_channels", "Channels to other clusters."),
       records = metrics.gauge("warren_federation_records", "What other clusters told."),
       waiting = metrics.gauge("warren_federation_waiting_records", "Not yet in Redis."),
       written = metrics.counter("warren_federation_written_records_total", "Written to Redis."),
       in = metrics.counter("warren_federation_frames_total", "Frames.", {{"way", "in"}}),
       out = metrics.counter("warren_federation_frames_total", "Frames.", {{"way", "out"}}),
       dropped = metrics.counter("warren_federation_frames_dropped_total",
                                 "Frames that a slow peer missed."),
       resyncs = metrics.counter("warren_federation_resyncs_total",
                                 "Times that a peer asked for everything.")]() mutable {
        double open = 0, frames_in = 0, frames_out = 0, lost = 0, again = 0;
        for (const auto& peer : peer_views()) {
          open += peer.is_connected;
          frames_in += double(peer.frames_in);
          frames_out += double(peer.frames_out);
          lost += double(peer.frames_dropped);
          again += double(peer.resyncs);
        }
        leads.set(election.is_leader());
        channels.set(open);
        records.set(double(view.size()));
        waiting.set(double(writer_.waiting()));
        written.raise_to(double(writer_.written()));
        in.raise_to(frames_in);
        out.raise_to(frames_out);
        dropped.raise_to(lost);
        resyncs.raise_to(again);
      });
}

// --- the face ------------------------------------------------------------------------------------

Result<std::unique_ptr<Federation>> Federation::create(asio::any_io_executor executor,
                                                       redis::Client& client, LeaseSession& session,
                                                       foghorn::Cluster& cluster,
                                                       FederationTerms terms) {
  for (const auto& peer : terms.peers) {
    auto checked = foghorn::check_id("peer", peer.cluster);
    if (!checked) return std::unexpected(checked.error());
    if (peer.cluster == cluster.terms().cluster_id)
      return fail(Errc::invalid, "peer {}: that is this cluster", peer.cluster);
  }
  auto core =
      std::make_unique<Core>(std::move(executor), client, session, cluster, std::move(terms));
  return std::unique_ptr<Federation>(new Federation(std::move(core)));
}

Federation::Federation(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Federation::~Federation() = default;

grpc::Service& Federation::service() { return *core_->service; }
void Federation::start() { core_->start(); }
awaitable<void> Federation::close() { co_await core_->close(); }
std::optional<Placement> Federation::place_now(const PlaceQuery& query) {
  return core_->place_now(query);
}
Async<Placement> Federation::place(PlaceQuery query, Clock::time_point deadline) {
  return core_->place(std::move(query), deadline);
}
std::optional<std::string> Federation::source_of(const std::string& stream) const {
  return core_->source_of(stream);
}
std::optional<std::string> Federation::ingested_at(const std::string& stream) const {
  return core_->ingested_at(stream);
}
std::optional<std::string> Federation::stream_of_playback(const std::string& playback_id) const {
  return core_->stream_of_playback(playback_id);
}
std::vector<RemoteChoice> Federation::artifact_at(const std::string& content_id, double latitude,
                                                  double longitude) const {
  return core_->artifact_at(content_id, latitude, longitude);
}
bool Federation::is_leader() const { return core_->election.is_leader(); }
Async<std::optional<Leader>> Federation::leader() { return core_->election.observe(); }
const View& Federation::view() const { return core_->view; }
std::vector<PeerView> Federation::peers() const { return core_->peer_views(); }
awaitable<void> Federation::changed(Clock::time_point deadline) {
  co_await core_->changed.wait(deadline);
}
std::shared_ptr<void> Federation::publish(Metrics& metrics) const {
  return core_->publish(metrics);
}

}  // namespace warren::federation
