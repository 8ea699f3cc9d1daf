#pragma once
// What this cluster knows of the others: plain memory, the same at every instance a moment later.
//
//   peer ── frame ──> leader ── one guarded script ──> Redis keys with a ttl
//                        │                                 │ at start, after a gap, now and then
//                        ├── the same records, published ──┤
//                        v                                 v
//                      View                           View of a follower
//
// Everything expires by the local clock, as its key does in Redis, so a peer that is gone is
// forgotten without anybody saying so. Bounded per peer: a peer that tells too much is not heard
// beyond that.
//
// A record that is no longer in Redis is in doubt. Either its peer withdrew it and this instance
// missed that, or Redis came back empty and the leader has not written it again yet: Redis looks
// the same. Forgetting it at once would cost viewers an answer in the second case, so it stays until
// it would have expired anyway. Only hearing it again extends its life. A digest does not: it
// confirms what the leader knows, and the leader may have heard the withdrawal.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "services/foghorn/federation/frames.h"
#include "services/foghorn/federation/record.h"

namespace warren::federation {

class View {
 public:
  struct Limits {
    std::size_t records_per_peer = 120'000;   // most_items, and edges
    std::size_t bytes_per_peer = 256u << 20;  // of their values
    std::size_t own_records = 100'000;        // replications under way, of no single peer
  };
  View() : View(Limits{}) {}
  explicit View(Limits limits);
  ~View();
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  // Takes a record as it stands in Redis, in place of what it said before. Errc::invalid: nobody
  // can read it. Errc::overloaded: its peer has told too much.
  Result<> put(Clock::time_point now, const Record& record, Clock::time_point expires);
  void erase(Kind kind, const std::string& id);
  // The leader heard this peer's digest: extends what the peer advertises, except what is in doubt.
  void refresh(Clock::time_point now, const std::string& peer);
  // This instance heard the digest itself: extends all of it, and ends its doubts.
  void confirm(Clock::time_point now, const std::string& peer);
  void expire(Clock::time_point now);
  // Redis does not have the records that were not heard since then: they are in doubt from now on.
  // Returns how many of them were not in doubt before.
  std::size_t doubt_unheard(Clock::time_point now, Clock::time_point since);
  bool was_heard(Kind kind, const std::string& id, Clock::time_point since) const;
  // What a peer advertises, as records and as what they say.
  void each_item(const std::string& peer,
                 const std::function<void(const Record&, const Item&)>& visit) const;

  // --- for decisions; null and empty: nothing is known -----------------------------------------
  // What is pointed at is there until the next change.
  struct Ad {
    std::string_view peer;
    const StreamAd* ad;
  };
  std::vector<Ad> ads(Clock::time_point now, const std::string& stream) const;
  std::vector<Ad> ads_of_playback(Clock::time_point now, const std::string& id) const;
  const std::string* stream_of_playback(Clock::time_point now, const std::string& id) const;
  const EdgeTelemetry* telemetry(Clock::time_point now, const std::string& peer,
                                 const std::string& node) const;
  bool is_replicated_at(Clock::time_point now, const std::string& stream,
                        const std::string& peer) const;
  const StreamLive* live(Clock::time_point now, const std::string& stream) const;
  const std::string* live_at(Clock::time_point now,
                             const std::string& stream) const;  // its cluster
  // That this cluster pulls it from another one.
  const ActiveReplication* pulled(Clock::time_point now, const std::string& stream) const;
  std::vector<const ActiveReplication*> replications(Clock::time_point now) const;
  const PeerHeartbeat* heartbeat(Clock::time_point now, const std::string& peer) const;
  struct Artifact {
    std::string_view peer;
    const RemoteArtifact* artifact;
  };
  std::vector<Artifact> artifacts(Clock::time_point now, const std::string& hash) const;
  std::map<std::string, std::string> addresses(
      Clock::time_point now) const;  // cluster -> host:port

  // --- for people and tests
  // ------------------------------------------------------------------------
  std::size_t size() const;
  std::size_t refused() const;  // records beyond the bound
  // Records of a peer, by kind.
  std::map<Kind, std::size_t> counts(const std::string& peer) const;
  std::vector<std::string> peers() const;
  // Equal where the same records are known, whenever they expire.
  std::string digest() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace warren::federation
