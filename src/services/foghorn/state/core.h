#pragma once
// What is behind a Cluster: the model, what is yet to be written, and how what comes in is merged.
#include <atomic>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "primitives/lease/lease.h"
#include "services/foghorn/state/cluster.h"
#include "services/foghorn/state/journal.h"
#include "services/foghorn/state/model.h"

namespace warren::foghorn {

// What is not said is not changed.
void set_said(NodeState& node, const NodeReport& report);

class Cluster::Core {
 public:
  Core(asio::any_io_executor executor, redis::Client* client, ClusterTerms terms);
  ~Core();

  // --- living (core.cc)
  // ---------------------------------------------------------------------------
  Async<> start(Clock::time_point deadline);
  awaitable<void> close();
  // identity.cc
  Async<> claim_id(Clock::time_point deadline);
  Async<> try_id();
  Async<bool> is_id_of_another();
  awaitable<void> keep_id();
  void give_up_id();
  bool has_id() const;
  Error id_is_taken() const;
  awaitable<Error> lost_id();
  void begin();                 // what needs no Redis
  awaitable<void> follow();     // what the mirror shows
  awaitable<void> keep_time();  // silence, penalties
  awaitable<void> publish_turns();
  // The table has all that was changed so far. Otherwise it has it a turn of the loop later, so
  // that many changes are one table.
  void publish();
  void changed() { turn_.notify(); }  // at the end of each change of the model
  void mark(EntityKey key) {          // it is to be written, where there is a Redis
    if (client) journal.mark(std::move(key));
  }

  // --- what nodes say (nodes.cc, streams.cc, artifacts.cc)
  // ----------------------------------------
  // What nodes say counts at once. Errc::held_elsewhere: our id is used by another process.
  Result<> hears() const;
  // What operators say needs what is known. Errc::unavailable before all is loaded.
  Result<> loaded() const;
  bool is_loaded() const { return !client || phase_ == Phase::loaded; }
  Error no_node(const std::string& node) const;  // of that name, as far as is known
  NodeRecord heard(const std::string& node);     // of one that has just shown life, maybe new
  // What a node says of what it carries is said to us from here on, and is a sign of life.
  void touch(const std::string& node);
  void put_own(NodeRecord record);
  void note_early(const std::string& node, const NodeReport& said, const std::string& host);
  void set_stream(StreamState state);  // written if it says anything new
  void set_instance(StreamInstanceState instance);
  StreamState stream_or_new(std::string_view name) const;
  StreamInstanceState instance_or_new(const std::string& stream, const std::string& node) const;
  void take_stats(const std::string& node, const std::string& stream, const StreamReport& report);
  bool is_origin(std::string_view stream, std::string_view node) const;
  // Returns how many were left out for want of room.
  std::size_t take_streams(const std::string& node,
                           const std::map<std::string, StreamReport>& streams);
  void drop_instance(const std::string& stream, const std::string& node);
  // Nobody carries it any more, if that is so.
  void settle_stream(const std::string& stream);
  void settle_abandoned();  // once all of what came in is taken
  // How many were left out, for want of room.
  std::size_t take_artifacts(const std::string& node, const std::vector<ArtifactReport>& artifacts);
  void set_copy(const std::string& node, const ArtifactReport& artifact);
  void drop_copy(const std::string& node, const std::string& content_id);
  void forget_node(const std::string& node);  // with all that it carried
  void forget_stream(const std::string& stream);
  // room.cc: Errc::overloaded, when the node, or the cluster, has all that it may have.
  Result<> admit(const std::string& node) const;
  Result<> make_room(const std::string& node, const std::string& stream);
  bool has_room_for_stream(const std::string& stream) const;
  Result<> has_room(const std::string& node, const std::string& content_id) const;
  void forget_left(const std::string& node);

  // --- what was said before all was loaded (early.cc)
  // ----------------------------------------------
  void merge_early();  // with what has just been loaded
  bool take_early(NodeState& incoming);
  bool lists_artifacts(const std::string& node) const;

  // --- what comes in (incoming.cc)
  // -------------------------------------------------------------------
  awaitable<void> catch_up();  // with what the mirror shows now
  bool is_new_history() const { return is_rewritten_ && !looks_at_old_; }
  // Of what the mirror showed nothing is half taken: what is known fits together.
  bool is_whole() const { return is_loaded() && !is_catching_up_; }
  void take(Kind kind, const Entity* before, const Entity* after);
  void take_value(Kind kind, const Entity& entity);
  void take_node(NodeState incoming);
  void yield_carried(const std::string& node);
  void take_stream(StreamState incoming);
  void take_instance(StreamInstanceState incoming);
  void take_artifact(ArtifactState incoming);
  void take_gone(const EntityKey& key);
  void on_settled(const EntityKey& key, const std::optional<std::string>& sent);
  std::optional<std::string> value_of(const EntityKey& key) const;
  std::optional<EntityKey> known_key(Kind kind, std::string_view id) const;
  void skip(Kind kind, std::string_view id, const Error& why);
  // All that this instance was told is written once more.
  void write_again();
  void mark_carried(const std::string& node);

  // --- penalties (penalties.cc)
  // -------------------------------------------------------------------
  void share_penalties(Clock::time_point now);
  void tell_arrival(const std::string& correlation_id);
  void take_penalties(PenaltyState incoming, Clock::time_point now);
  void forget_penalties(const std::string& instance);
  void add_up_penalties(Clock::time_point now);

  // --- what Redis lost (lost.cc)
  // -------------------------------------------------------------------
  bool is_of_peers(const EntityKey& key) const;  // they write it, and we do not
  bool keeps(const EntityKey& key);              // of which Redis has nothing any more
  bool is_awaited(const EntityKey& key) const;
  void end_kept(Clock::time_point now);

  void look_for_silence(Clock::time_point now);  // liveness.cc
  bool is_carried(const StreamRecord& stream) const;
  bool is_carried_here(const StreamRecord& stream) const;  // by a node that reports to us
  std::vector<std::string> idle_modes() const;
  void sweep(Clock::time_point now);

  ClusterTerms terms;
  asio::any_io_executor executor;
  redis::Client* client;
  Model model;
  Viewers viewers;
  Journal journal;
  std::unique_ptr<Mirror> mirror;
  std::optional<Error> problem;  // with our id
  std::uint64_t skipped = 0;     // values that nobody can read

  // What readers have. (libstdc++ 12 has no atomic shared_ptr to rely on: see
  // primitives/mirror/table.h.)
  std::shared_ptr<const balance::RoutingTable> table() const;
  std::shared_ptr<const balance::RoutingTable> table_here;

  std::uint64_t viewer_average = 0;
  Event published;

 private:
  void show(std::shared_ptr<const balance::RoutingTable> table);

  // One look at the mirror. One that was cancelled before it was finished is begun anew by the next.
  class CatchingUp {
   public:
    CatchingUp(Core& core, std::shared_ptr<const Snapshot> next);
    ~CatchingUp();
    CatchingUp(const CatchingUp&) = delete;
    CatchingUp& operator=(const CatchingUp&) = delete;
    const std::shared_ptr<const Snapshot>& before() const { return before_; }
    void finish() { before_ = core_.seen_; }

   private:
    Core& core_;
    std::shared_ptr<const Snapshot> before_;
  };

  struct PeerPenalties {
    PenaltyState state;
    Clock::time_point seen_at;
  };
  std::map<std::string, PeerPenalties> peers_;
  std::set<std::string> penalised_;  // nodes with a penalty of others
  PenaltyState shared_penalties_;    // as others have them from us
  Clock::time_point shared_at_ = {}, settled_at_ = {};
  std::deque<std::pair<Clock::time_point, std::string>> arrivals_;  // to be told, the oldest first

  // What a node said before all was loaded, the last word on each member. It counts at once, and
  // once more on top of what is loaded: so what it left out is as Redis has it.
  struct EarlyWord {
    NodeReport said;
    std::string host;
    bool is_known = false;  // more than a sign of life, or in Redis
    bool lists_artifacts = false;
  };
  std::map<std::string, EarlyWord> early_;

  std::unique_ptr<LeaseSession> session_;
  std::optional<Lease> lease_;
  std::shared_ptr<const Snapshot> seen_;  // what the model has of the mirror
  std::set<std::string> unreadable_;      // keys that were told of
  std::uint64_t published_revision_ = ~std::uint64_t{0};
  bool is_catching_up_ = false;
  Event caught_up_;
  Event turn_;
  Event id_lost_;
  std::set<std::string> abandoned_;  // streams that a carrier let go during a look at the mirror
  // We were told that history was rewritten, and have not taken all that the mirror shows of the new one.
  // It told us while it still showed this of the old one.
  bool is_rewritten_ = false, looks_at_old_ = false;
  std::shared_ptr<const Snapshot> rewritten_at_;
  std::set<EntityKey> kept_;  // of peers, lost by Redis, and not written again so far
  Clock::time_point kept_until_ = {};
  enum class Phase { idle, loading, loaded, closed } phase_ = Phase::idle;
  mutable std::atomic_flag locked_;
  std::shared_ptr<const balance::RoutingTable> shown_;
  TaskGroup tasks_, writing_;
};

}  // namespace warren::foghorn
