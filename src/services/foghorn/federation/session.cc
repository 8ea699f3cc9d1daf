#include "services/foghorn/federation/session.h"

#include <algorithm>

namespace warren::federation {

namespace {

constexpr std::size_t frame_payloads = 200;    // in one frame
constexpr std::size_t frame_bytes = 1u << 20;  // of one frame, about; four times that is refused
constexpr std::size_t most_heard_bytes = 256u << 20;  // that one peer may make us remember

// What goes into one frame.
class Batch {
 public:
  template <class T>
  void add(const T& payload) {
    if constexpr (std::is_same_v<T, StreamAd>)
      bytes_ += size_of(payload);
    else
      bytes_ += frame_bytes / frame_payloads;  // none of the others is larger
    payloads_.emplace_back(payload);
  }
  bool is_full() const { return payloads_.size() >= frame_payloads || bytes_ >= frame_bytes; }
  bool is_empty() const { return payloads_.empty(); }
  std::vector<Payload> take() {
    bytes_ = 0;
    return std::exchange(payloads_, {});
  }

 private:
  std::vector<Payload> payloads_;
  std::size_t bytes_ = 0;
};

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace

PeerSession::PeerSession(const FederationTerms& terms, std::string self, const PeerTerms& peer,
                         Hello hello, Clock::time_point now)
    : terms_(terms),
      self_(std::move(self)),
      peer_(peer),
      next_edges_(now),
      next_digest_(now + terms.digest_interval),
      next_summary_(now),
      next_heartbeat_(now),
      heard_at_(now) {
  push(std::move(hello));
}

void PeerSession::close(Errc code, std::string why) {
  if (!over_) over_ = Error{code, std::move(why)};
}

void PeerSession::leave(std::string reason, std::string leader_address) {
  if (is_leaving_ || over_) return;
  mailbox_.clear();
  push(Goodbye{std::move(reason), std::move(leader_address)});
  is_leaving_ = true;
}

// --- telling -------------------------------------------------------------------------------------

void PeerSession::push(Payload payload) {
  std::vector<Payload> one;
  one.push_back(std::move(payload));
  push(std::move(one));
}

void PeerSession::push(std::vector<Payload> payloads) {
  if (is_leaving_ || over_) return;
  if (mailbox_.size() >= terms_.mailbox_frames) {
    // The first frame may be the greeting; without that nothing counts.
    bool is_greeting = std::holds_alternative<Hello>(mailbox_.front().payloads.front());
    mailbox_.erase(mailbox_.begin() + (is_greeting ? 1 : 0));
    ++counters_.dropped;
    overflowed_ = true;
  }
  mailbox_.push_back({self_, std::move(payloads)});
}

void PeerSession::offer(Clock::time_point now, std::shared_ptr<const Offer> offer) {
  offer_ = std::move(offer);
  tell_changes();
  on_time(now);
}

// What differs from what was told. While all is being told anew only what was passed already: the
// rest comes by itself.
void PeerSession::tell_changes() {
  if (!offer_ || telling_ == Telling::pending || overflowed_) return;
  Batch changes;
  auto change = [&](const Item& item) {
    std::visit([&](const auto& each) { changes.add(each); }, item);
    if (changes.is_full()) push(changes.take());
  };
  for (auto at = told_.begin(); at != told_.end();) {
    auto now = offer_->items.find(at->first);
    if (now == offer_->items.end() || !shares(tenant_of(now->second.item))) {
      change(withdrawal_of(at->second.item));
      at = told_.erase(at);
    } else {
      if (now->second.revision != at->second.revision) {
        change(now->second.item);
        at->second = now->second;
      }
      ++at;
    }
  }
  for (const auto& [key, entry] : offer_->items) {
    if (telling_ == Telling::walking && key > walked_) break;
    if (!shares(tenant_of(entry.item)) || told_.contains(key)) continue;
    change(entry.item);
    told_.emplace(key, entry);
  }
  if (!changes.is_empty()) push(changes.take());
}

void PeerSession::tell_edges() {
  Batch edges;
  for (const auto& edge : offer_->edges) {
    if (!edge.tenant_id.empty() && !shares(edge.tenant_id)) continue;
    edges.add(edge);
    if (edges.is_full()) push(edges.take());
  }
  if (!edges.is_empty()) push(edges.take());
}

void PeerSession::begin_resync() {
  overflowed_ = false;
  told_.clear();
  walked_.clear();
  telling_ = Telling::walking;
  push(ResyncBegin{});
}

// The next part of everything, when the mailbox is empty: so it is never older than what was told
// before it.
void PeerSession::walk() {
  Batch part;
  auto at = offer_->items.upper_bound(walked_);
  for (; at != offer_->items.end() && !part.is_full(); ++at) {
    walked_ = at->first;
    if (!shares(tenant_of(at->second.item))) continue;
    std::visit([&](const auto& each) { part.add(each); }, at->second.item);
    told_.emplace(at->first, at->second);
  }
  if (at == offer_->items.end()) {
    telling_ = Telling::told;
    part.add(ResyncEnd{});
  }
  if (!part.is_empty()) push(part.take());
}

std::optional<Frame> PeerSession::next_frame() {
  if (over_) return {};
  if (mailbox_.empty() && offer_ && !is_leaving_) {
    if (overflowed_ || telling_ == Telling::pending)
      begin_resync();
    else if (telling_ == Telling::walking)
      walk();
  }
  if (mailbox_.empty()) return {};
  auto frame = std::move(mailbox_.front());
  mailbox_.pop_front();
  ++counters_.frames_out;
  if (is_leaving_) close(Errc::cancelled, "we said goodbye");
  return frame;
}

void PeerSession::on_time(Clock::time_point now) {
  if (over_) return;
  if (now - heard_at_ >= 3 * terms_.heartbeat_interval)
    return close(Errc::timeout, "nothing was heard for three heartbeats");
  if (!offer_) return;
  auto is_due = [&](Clock::time_point& next, std::chrono::milliseconds interval) {
    if (now < next) return false;
    next = now + interval;
    return true;
  };
  if (is_due(next_heartbeat_, terms_.heartbeat_interval)) push(offer_->heartbeat);
  if (is_due(next_edges_, terms_.telemetry_interval)) tell_edges();
  if (is_due(next_summary_, terms_.summary_interval)) {
    EdgeSummary summary;
    std::size_t bytes = 0;
    for (const auto& edge : offer_->summary.edges) {
      if (!edge.now.tenant_id.empty() && !shares(edge.now.tenant_id)) continue;
      bytes += size_of(edge);
      if (bytes > 2 * frame_bytes) break;  // one frame has it all
      summary.edges.push_back(edge);
    }
    push(std::move(summary));
  }
  if (telling_ == Telling::told && !overflowed_ && is_due(next_digest_, terms_.digest_interval))
    push(digest());
}

Clock::time_point PeerSession::wake_at() const {
  auto next = heard_at_ + 3 * terms_.heartbeat_interval;
  if (!offer_) return next;
  next = std::min({next, next_heartbeat_, next_edges_, next_summary_});
  return telling_ == Telling::told ? std::min(next, next_digest_) : next;
}

Digest PeerSession::digest() const {
  Digest digest;
  for (const auto& [key, entry] : told_) {
    ++digest.count;
    digest.sum += entry.revision;
  }
  return digest;
}

// --- hearing -------------------------------------------------------------------------------------

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
                 [&](Flawed& flawed) { hear_item(std::move(flawed.item), false); },
             },
             payload);
}

void PeerSession::hear_item(Item item, bool is_good) {
  auto key = key_of(item);
  auto known = heard_.find(key);
  bool is_ours = is_good && shares(tenant_of(item));
  if (!is_there(item)) {
    if (known == heard_.end()) return;
    if (known->second.is_ours) {
      auto& gone = is_good ? item : known->second.withdrawal;
      std::visit([&](auto& each) { news_.emplace_back(std::move(each)); }, gone);
    }
    forget(known);
    return;
  }
  if (known == heard_.end() && heard_.size() >= most_items)
    return close(Errc::overloaded, fmt::format("a peer advertises more than {}", most_items));
  auto revision = revision_of(item);
  bool was_ours = known != heard_.end() && known->second.is_ours;
  auto gone = was_ours && !is_ours ? known->second.withdrawal : withdrawal_of(item);
  if (known != heard_.end()) forget(known);
  auto bytes = key.size() + text_size(gone);
  heard_sum_ += revision;
  heard_bytes_ += bytes;
  if (heard_bytes_ > most_heard_bytes)
    return close(Errc::overloaded, "a peer advertises more than can be remembered");
  heard_.emplace(std::move(key), Heard{revision, gone, bytes, false, is_ours});
  // What we do not share is remembered, so that digests agree, and not passed on.
  if (!is_ours) {
    ++counters_.ignored;
    if (was_ours) std::visit([&](auto& each) { news_.emplace_back(std::move(each)); }, gone);
    return;
  }
  std::visit([&](auto& each) { news_.emplace_back(std::move(each)); }, item);
}

std::map<std::string, PeerSession::Heard>::iterator PeerSession::forget(
    std::map<std::string, Heard>::iterator heard) {
  heard_sum_ -= heard->second.revision;
  heard_bytes_ -= heard->second.bytes;
  return heard_.erase(heard);
}

void PeerSession::end_resync() {
  for (auto at = heard_.begin(); at != heard_.end();) {
    if (!at->second.is_old) {
      ++at;
      continue;
    }
    if (at->second.is_ours)
      std::visit([&](auto& each) { news_.emplace_back(each); }, at->second.withdrawal);
    at = forget(at);
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
  } else {
    push(ResyncRequest{});  // each time: a slow peer's mailbox may have dropped the last one
  }
}

bool PeerSession::knows(const Item& item) const {
  auto heard = heard_.find(key_of(item));
  return heard != heard_.end() && heard->second.is_ours;
}

bool PeerSession::says_live(const std::string& stream) const {
  return knows(StreamLive{stream, {}, {}, true});
}

void PeerSession::each_live(const std::function<void(const StreamLive&)>& visit) const {
  auto first = key_of(StreamLive{});  // of all of them the smallest
  for (auto at = heard_.lower_bound(first); at != heard_.end(); ++at) {
    const auto* gone = std::get_if<StreamLive>(&at->second.withdrawal);
    if (!gone) break;
    auto live = *gone;
    live.is_live = true;
    if (at->second.is_ours) visit(live);
  }
}

std::vector<News> PeerSession::take_news() { return std::exchange(news_, {}); }

}  // namespace warren::federation
