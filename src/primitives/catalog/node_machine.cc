#include "primitives/catalog/node_machine.h"

#include <algorithm>
#include <utility>

#include "primitives/lease/machine.h"

namespace warren {

std::string_view name(NodeState state) {
  switch (state) {
    case NodeState::joining:
      return "joining";
    case NodeState::held:
      return "held";
    case NodeState::uncertain:
      return "uncertain";
    case NodeState::silent:
      return "silent";
  }
  ensure(false, "a state of a node has a name");
}

std::optional<NodeMachine::Intent> NodeMachine::next(Clock::time_point now) {
  if (is_asking_ || now < next_) return std::nullopt;
  is_asking_ = true;
  sent_ = now;
  return session_.empty() ? Intent::join : Intent::beat;
}

void NodeMachine::on_joined(Clock::time_point now, Result<NodeSession> answer) {
  is_asking_ = false;
  if (!answer) return ask_again(now);
  session_ = *std::move(answer);
  ++lives_;
  is_unanswered_ = false;
  confirmed_ = sent_;
  next_ = std::max(now, confirmed_ + ttl_ / 5);
}

void NodeMachine::on_beat(Clock::time_point now, const Result<>& answer) {
  is_asking_ = false;
  if (session_.empty()) return;  // lost meanwhile
  if (!answer && answer.error().code == Errc::lease_lost) return on_lost(now, session_);
  is_unanswered_ = !answer;
  if (!answer) return ask_again(now);
  confirmed_ = sent_;
  // A fifth of the ttl: three beats in a row may be lost before the node is uncertain.
  next_ = std::max(now, confirmed_ + ttl_ / 5);
  if (std::exchange(is_hurried_, false)) next_ = now;
}

void NodeMachine::on_lost(Clock::time_point now, const NodeSession& session) {
  if (session != session_) return;
  session_.clear();
  next_ = now;
}

void NodeMachine::hurry(Clock::time_point now) {
  if (session_.empty()) return;
  next_ = std::min(next_, now);
  is_hurried_ = is_asking_;  // what is under way may report the old info
}

void NodeMachine::ask_again(Clock::time_point now) {
  next_ = now + std::max<Clock::duration>(ttl_ / 20, 10ms);
}

Clock::time_point NodeMachine::wake_at() const {
  return is_asking_ ? Clock::time_point::max() : next_;
}

Clock::time_point NodeMachine::deadline() const {
  return session_.empty() ? Clock::time_point::min() : confirmed_ + LeaseMachine::trusted(ttl_);
}

NodeState NodeMachine::state(Clock::time_point now) const {
  if (session_.empty()) return NodeState::joining;
  if (now >= deadline()) return NodeState::silent;
  return now < confirmed_ + 2 * ttl_ / 3 ? NodeState::held : NodeState::uncertain;
}

}  // namespace warren
