#pragma once
// The lease of a node, without a socket: when to join, when to beat, and how long its rows are its
// own. The node's process and the simulator drive this same code.
//
//   joining ──on_joined──> held ◀──────on_beat──────▶ uncertain ──deadline──> silent
//      ▲                     └─────────────────────────────┬────────────────────┘
//      └──── lease_lost: the rows of that life are gone ───┘
//
// A deadline counts from before the request left, less the drift between two clocks. So the catalog
// never gives a row to another node while we still serve it. After the deadline nothing is served,
// but the memory is kept. If the catalog has not noticed, the next beat makes all rows ours again.
// If it has, the node joins again, and claiming what it still has in memory costs nothing.
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

  // The next call to the catalog, or nullopt while an answer is awaited. Report its outcome to
  // on_joined() or on_beat(), even if there was no answer.
  std::optional<Intent> next(Clock::time_point now);
  void on_joined(Clock::time_point now, Result<NodeSession> answer);
  void on_beat(Clock::time_point now, const Result<>& answer);
  // Another call to the catalog failed because the session is over.
  void on_lost(Clock::time_point now, const NodeSession& session);
  // The node's info has changed: the next beat is due now.
  void hurry(Clock::time_point now);
  // Call next() no later than this.
  Clock::time_point wake_at() const;
  // The last beat was not answered. If only the way back is cut, beats still arrive: each would
  // prolong a lease under which this node serves nothing, and no other node could have its rows. So
  // before the next beat the catalog is asked something that prolongs nothing; its answer is the
  // proof that the way back works.
  bool needs_proof() const { return is_unanswered_ && !session_.empty(); }

  NodeState state(Clock::time_point now) const;
  // Until then no other node is given a row of ours. In the past if there is no session.
  Clock::time_point deadline() const;
  bool may_serve(Clock::time_point now) const { return now < deadline(); }
  // A node begins nothing new while a beat is overdue.
  bool may_claim(Clock::time_point now) const { return state(now) == NodeState::held; }
  const NodeSession& session() const { return session_; }  // empty: none
  std::uint64_t lives() const { return lives_; }           // the number of sessions so far

 private:
  void ask_again(Clock::time_point now);

  std::chrono::milliseconds ttl_;
  NodeSession session_;
  std::uint64_t lives_ = 0;
  Clock::time_point sent_{};       // of the request under way
  Clock::time_point confirmed_{};  // the catalog had the session then or later
  Clock::time_point next_{};
  bool is_asking_ = false;
  bool is_unanswered_ = false;
  bool is_hurried_ = false;  // another beat follows the awaited answer at once
};

}  // namespace warren
