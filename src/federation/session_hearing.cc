// The half of a session that listens.
#include "federation/session.h"

namespace warren::federation {

namespace {

constexpr std::size_t most_items = 100'000;  // that one peer may advertise

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace

void PeerSession::on_frame(Clock::time_point now, Frame frame) {
  if (over_) return;
  ++counters_.frames_in;
  heard_at_ = now;
  if (frame.cluster_id != peer_.cluster)
    return close(
        Errc::denied,
        fmt::format("a frame says that it is of cluster {}, and this channel is that of {}",
                    frame.cluster_id, peer_.cluster));
  for (auto& payload : frame.payloads) {
    bool is_first_word =
        std::holds_alternative<Hello>(payload) || std::holds_alternative<Goodbye>(payload);
    if (!greeting_ && !is_first_word)
      return close(Errc::protocol, "the first frame is not a greeting");
    hear(now, std::move(payload));
    if (over_) return;
  }
}

void PeerSession::hear(Clock::time_point, Payload payload) {
  auto shared_edge = [&](const EdgeTelemetry& edge) {
    return edge.tenant_id.empty() || shares(edge.tenant_id);
  };
  std::visit(Overloaded{
                 [&](Hello& hello) {
                   if (greeting_) return close(Errc::protocol, "a second greeting");
                   greeting_ = std::move(hello);
                 },
                 [&](Goodbye& goodbye) {
                   leader_hint_ = std::move(goodbye.leader_address);
                   close(Errc::refused, std::move(goodbye.reason));
                 },
                 [&](EdgeTelemetry& edge) {
                   if (shared_edge(edge))
                     news_.emplace_back(std::move(edge));
                   else
                     ++counters_.ignored;
                 },
                 [&](EdgeSummary& summary) {
                   std::erase_if(summary.edges,
                                 [&](const auto& edge) { return !shared_edge(edge.now); });
                   news_.emplace_back(std::move(summary));
                 },
                 [&](PeerHeartbeat& heartbeat) { news_.emplace_back(std::move(heartbeat)); },
                 [&](Digest& digest) { hear_digest(digest); },
                 [&](ResyncRequest&) {
                   ++counters_.resyncs;
                   overflowed_ = true;  // all is told anew once the mailbox is empty
                 },
                 [&](ResyncBegin&) {
                   is_resyncing_ = true;
                   is_requested_ = false;
                   for (auto& [key, heard] : heard_) heard.is_old = true;
                 },
                 [&](ResyncEnd&) { end_resync(); },
                 [&](StreamAd& ad) { hear_item(std::move(ad)); },
                 [&](StreamLive& live) {
                   if (live.is_live && live.cluster_id != peer_.cluster)
                     return close(Errc::denied, "a peer speaks for another cluster");
                   hear_item(std::move(live));
                 },
                 [&](Replication& replication) {
                   if (replication.cluster_id != peer_.cluster)
                     return close(Errc::denied, "a peer speaks for another cluster");
                   hear_item(std::move(replication));
                 },
                 [&](RemoteArtifact& artifact) { hear_item(std::move(artifact)); },
             },
             payload);
}

void PeerSession::hear_item(Item item) {
  auto key = key_of(item);
  auto known = heard_.find(key);
  bool is_ours = shares(tenant_of(item));
  if (!is_there(item)) {
    if (known == heard_.end()) return;
    heard_sum_ -= known->second.revision;
    if (known->second.is_ours)
      std::visit([&](auto& each) { news_.emplace_back(std::move(each)); }, item);
    heard_.erase(known);
    return;
  }
  if (known == heard_.end() && heard_.size() >= most_items)
    return close(Errc::overloaded, fmt::format("a peer advertises more than {}", most_items));
  auto revision = revision_of(item);
  if (known != heard_.end()) heard_sum_ -= known->second.revision;
  heard_sum_ += revision;
  heard_.insert_or_assign(std::move(key), Heard{revision, withdrawal_of(item), false, is_ours});
  // What we do not share is remembered, so that digests agree, and not passed on.
  if (!is_ours) {
    ++counters_.ignored;
    return;
  }
  std::visit([&](auto& each) { news_.emplace_back(std::move(each)); }, item);
}

void PeerSession::end_resync() {
  for (auto at = heard_.begin(); at != heard_.end();) {
    if (!at->second.is_old) {
      ++at;
      continue;
    }
    heard_sum_ -= at->second.revision;
    if (at->second.is_ours)
      std::visit([&](auto& each) { news_.emplace_back(each); }, at->second.withdrawal);
    at = heard_.erase(at);
  }
  is_resyncing_ = false;
  is_confirmed_ = true;
  news_.emplace_back(Confirmed{});
}

void PeerSession::hear_digest(const Digest& digest) {
  if (is_resyncing_) return;
  is_confirmed_ = digest == Digest{heard_.size(), heard_sum_};
  if (is_confirmed_) {
    news_.emplace_back(Confirmed{});
  } else if (!is_requested_) {
    is_requested_ = true;
    push(ResyncRequest{});
  }
}

std::vector<News> PeerSession::take_news() { return std::exchange(news_, {}); }

}  // namespace warren::federation
