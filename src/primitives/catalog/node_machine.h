#pragma once
// The lease of a node, without a socket: when to join, when to beat, and until when its rows are its
// own. The node's process and the simulator drive this same code.
//
//   joining ──on_joined──> held ◀──────on_beat──────▶ uncertain ──deadline──> silent
//      ▲                     └─────────────────────────────┬────────────────────┘
//      └──── lease_lost: the rows of that life are gone ───┘
//
// A deadline counts from before the request left, less the drift that two clocks may have, so that
// the catalog never gives a row to somebody else while we still serve it. Past the deadline nothing is
// served, but the memory is kept: if the catalog did not notice, the next beat makes all of it ours
// again; if it did, the node joins anew, and claiming what it still has in memory costs nothing.
#include <chrono>
#include <optional>

#include "primitives/catalog/catalog.h"

namespace warren {

enum class NodeState : std::uint8_t { joining, held, uncertain, silent };
std::string_view name(NodeState state);

class NodeMachine {
 public:
  enum class Intent : std::uint8_t { join, beat };

  explicit NodeMachine(std::chrono::milliseconds ttl) : ttl_(ttl) {}

  // What to ask the catalog now; none while an answer is awaited. Its answer comes to on_joined or
  // on_beat, also when there was none.
  std::optional<Intent> next(Clock::time_point now);
  void on_joined(Clock::time_point now, Result<NodeSession> answer);
  void on_beat(Clock::time_point now, const Result<>& answer);
  // Somebody else heard from the catalog that the session is over.
  void on_lost(Clock::time_point now, const NodeSession& session);
  // What it says of itself has changed: the next beat is due now.
  void hurry(Clock::time_point now);
  // Call next() again by then.
  Clock::time_point wake_at() const;
  // The last beat was not answered. Where only the way back is cut, beats go on arriving: each would
  // prolong a lease under which this node serves nothing, and nobody else could have its rows. So before
  // the next one the catalog is asked something that prolongs nothing, and that it answers is the proof.
  bool needs_proof() const { return is_unanswered_ && !session_.empty(); }

  NodeState state(Clock::time_point now) const;
  // Until then no other node is given a row of ours. The past when there is no session.
  Clock::time_point deadline() const;
  bool may_serve(Clock::time_point now) const { return now < deadline(); }
  // Nothing new is begun while a beat is overdue.
  bool may_claim(Clock::time_point now) const { return state(now) == NodeState::held; }
  const NodeSession& session() const { return session_; }  // empty: none
  std::uint64_t lives() const { return lives_; }           // sessions so far

 private:
  void ask_again(Clock::time_point now);

  std::chrono::milliseconds ttl_;
  NodeSession session_;
  std::uint64_t lives_ = 0;
  Clock::time_point sent_{};       // what is under way
  Clock::time_point confirmed_{};  // the catalog had the session then, or later
  Clock::time_point next_{};
  bool is_asking_ = false;
  bool is_unanswered_ = false;
  bool is_hurried_ = false;  // the answer that is awaited is followed by another beat at once
};

}  // namespace warren
