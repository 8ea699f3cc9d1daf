#pragma once
// One PeerChannel without a socket: frames and time in, frames and news out.
//
//   a                                         b
//   |── hello ─────────────────────────────>  |   who speaks, under which token
//   |<───────────────────────────── hello ──  |
//   |── begin, everything, end ────────────>  |   both at once, each for itself
//   |── +stream, -stream ──────────────────>  |   only what changed
//   |── digest: 5,000 items, sum x ────────>  |   every 5 s
//   |<──────────────────── resync request ──  |   when it has something else
//
// Frames wait in a mailbox of bounded length. When a slow peer lets it fill up, the oldest go, and
// once it has taken the rest all is told anew: it misses changes, never the truth.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "services/foghorn/federation/frames.h"
#include "services/foghorn/federation/terms.h"

namespace warren::federation {

// All that this cluster has to tell, to whomever.
struct Offer {
  struct Entry {
    std::uint64_t revision = 0;
    Item item;
  };
  std::map<std::string, Entry> items;  // by key_of
  std::vector<EdgeTelemetry> edges;
  EdgeSummary summary;
  PeerHeartbeat heartbeat;

  void add(Item item) {
    auto key = key_of(item);
    auto revision = revision_of(item);
    items.insert_or_assign(std::move(key), Entry{revision, std::move(item)});
  }
};

// That all that was told is still so.
struct Confirmed {};
using News = std::variant<EdgeTelemetry, EdgeSummary, StreamAd, StreamLive, Replication,
                          RemoteArtifact, PeerHeartbeat, Confirmed>;

class PeerSession {
 public:
  struct Counters {
    std::uint64_t frames_in = 0, frames_out = 0, dropped = 0, resyncs = 0, ignored = 0;
  };

  // `peer` is whom we dialled, or who is configured under the name that the first frame gave.
  PeerSession(const FederationTerms& terms, std::string self, const PeerTerms& peer, Hello hello,
              Clock::time_point now);

  // What there is to tell now; the difference is told.
  void offer(Clock::time_point now, std::shared_ptr<const Offer> offer);
  void on_frame(Clock::time_point now, Frame frame);
  void on_time(Clock::time_point now);
  // Says why, as the last frame.
  void leave(std::string reason, std::string leader_address);

  // None: nothing to send now.
  std::optional<Frame> next_frame();
  Clock::time_point wake_at() const;  // call on_time by then
  std::vector<News> take_news();
  // Why the channel is to be closed, when it is. Sending goodbye comes first.
  const std::optional<Error>& over() const { return over_; }
  // Whom to dial instead, when the other side said so.
  const std::string& leader_hint() const { return leader_hint_; }

  const std::string& peer() const { return peer_.cluster; }
  const std::optional<Hello>& greeting() const { return greeting_; }  // theirs
  bool knows(const Item& item) const;  // heard it here, and may pass it on
  bool says_live(const std::string& stream) const;
  void each_live(const std::function<void(const StreamLive&)>& visit) const;
  bool in_sync() const { return is_confirmed_; }  // the last digest of theirs was ours
  const Counters& counters() const { return counters_; }

 private:
  enum class Telling { pending, walking, told };

  bool shares(const std::string& tenant) const {
    return peer_.tenants.empty() || peer_.tenants.contains(tenant);
  }
  void close(Errc code, std::string why);
  void push(Payload payload);
  void push(std::vector<Payload> payloads);
  void tell_changes();
  void tell_edges();
  void walk();
  void begin_resync();
  void hear(Clock::time_point now, Payload payload);
  void hear_item(Item item, bool is_good = true);
  void hear_digest(const Digest& digest);
  void end_resync();
  Digest digest() const;

  const FederationTerms& terms_;
  std::string self_;
  PeerTerms peer_;

  // What we tell.
  std::shared_ptr<const Offer> offer_;
  std::deque<Frame> mailbox_;
  bool overflowed_ = false;
  Telling telling_ = Telling::pending;
  std::string walked_;                        // up to this key, while walking
  std::map<std::string, Offer::Entry> told_;  // that the other side has, once it has the mailbox
  Clock::time_point next_edges_, next_digest_, next_summary_, next_heartbeat_;
  bool is_leaving_ = false;

  // What we hear.
  std::optional<Hello> greeting_;
  struct Heard {
    std::uint64_t revision = 0;
    Item withdrawal;
    std::size_t bytes = 0;
    bool is_old = false;   // not yet seen in the resync that is under way
    bool is_ours = false;  // of a tenant that we share, and as it should be
  };
  std::map<std::string, Heard>::iterator forget(std::map<std::string, Heard>::iterator heard);
  std::map<std::string, Heard> heard_;
  std::uint64_t heard_sum_ = 0;
  std::size_t heard_bytes_ = 0;
  bool is_resyncing_ = false;  // between begin and end
  bool is_confirmed_ = false;
  std::vector<News> news_;
  Clock::time_point heard_at_;

  std::optional<Error> over_;
  std::string leader_hint_;
  Counters counters_;
};

}  // namespace warren::federation
