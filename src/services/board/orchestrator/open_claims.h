#pragma once
// The claims that are not over, with what is known of each, and whose turn it is to be looked at.
//
// What is known comes from Redis once and is kept true by events. While a claim is looked at, that
// is, while somebody waits for Redis because of it, events only make it dirty: it is looked at
// again. So there is one look per claim at a time, and none delays that of another claim.
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "services/board/orchestrator/decide.h"
#include "services/board/orchestrator/slots.h"

namespace warren::orchestrator {

struct OpenClaim {
  Facts facts;
  bool is_known = false;     // the facts are complete; otherwise they are to be read
  bool is_outdated = false;  // something was heard while they were read: read them again
  bool is_looked_at = false;
  bool is_dirty = false;    // to be looked at again after that
  bool is_in_line = false;  // to be looked at
  bool is_urgent = false;   // because something was heard
  Clock::time_point wake_at = Clock::time_point::max();
};

class OpenClaims {
 public:
  explicit OpenClaims(const OrchestratorTerms& terms) : slots_(terms.roles) {}

  OpenClaim* find(const std::string& claim_id);
  // Also when it is there. What is known of a new one is what the caller sets.
  OpenClaim& add(const board::Claim& claim);
  void remove(const std::string& claim_id);
  // It is on another artefact than an event said.
  void retarget(OpenClaim& open, const std::string& artefact_id);
  bool has_claim_on(const std::string& artefact_id) const {
    return by_target_.contains(artefact_id);
  }
  std::size_t size() const { return claims_.size(); }
  board::Words ids() const;

  // The claim is this from now on, or is about to be: takes and frees slots, and has those looked
  // at who wait for them.
  void note(const board::Claim& claim);
  const Slots& slots() const { return slots_; }

  // Each has whatever it concerns looked at.
  void on_bid(const std::string& claim_id, const std::string& role, board::BidType bid);
  void on_child(const Part& child, const board::Words& sources);
  void doubt(const std::string& claim_id);  // somebody else may have changed it
  void check(const std::string& claim_id);  // the same, without hurry
  // Something may have been missed: nothing is known any more, and nobody was told anything.
  void doubt_all();
  void look_at(const std::string& claim_id);
  void look_at_all();  // after those of whom something was heard
  void look_later(const std::string& claim_id, Clock::time_point time);

  // Whose turn it is, if anybody's; the caller looks, and then tells.
  std::optional<std::string> next();
  void looked(const std::string& claim_id);
  // Those whose time has come get in line.
  void wake(Clock::time_point now);
  Clock::time_point next_wake() const;
  std::size_t in_line() const { return urgent_.size() + patient_.size(); }

 private:
  void leave_target(const std::string& artefact_id, const std::string& claim_id);
  void doubt(OpenClaim& open);
  void line_up(const std::string& claim_id, OpenClaim& open, bool is_urgent);

  std::unordered_map<std::string, OpenClaim> claims_;
  std::unordered_map<std::string, std::set<std::string>> by_target_;
  std::set<std::pair<Clock::time_point, std::string>> timers_;
  std::deque<std::string> urgent_, patient_;  // may have some that had their turn
  Slots slots_;
};

}  // namespace warren::orchestrator
