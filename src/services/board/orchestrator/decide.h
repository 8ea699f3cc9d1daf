#pragma once
// What should happen to a claim next: facts in, intention out.
//
//   bidding --all bids--> review --all approve--> parallel --all done--> exclusive --> complete
//      |                    |                        |                      |
//      | nobody wants it    | somebody rejects       | an agent fails       | no worker is free
//      v                    v                        v                      v
//   untaken, or        terminated, and a         terminated             in the grant queue
//   complete           feedback claim
//
// What all leave alone is complete, unless it is a goal. A goal that all leave alone, and whatever
// somebody has not bid on, is untaken: it stays open for whoever comes. A phase for which nobody bid is left out. Nothing is remembered between two decisions but what is
// in the claim, so whoever takes over continues where it stood by looking at the facts.
#include <optional>
#include <string>
#include <vector>

#include "services/board/orchestrator/facts.h"
#include "services/board/store/events.h"

namespace warren::orchestrator {

struct Decision {
  std::optional<board::Artefact> failure;  // to be created before the claim is changed
  std::optional<board::Claim> changed;
  std::optional<board::Claim> feedback;  // takes the place of the changed one
  std::vector<board::Announcement> announcements;
  bool tells_agents = false;                    // among the announcements
  std::optional<Clock::time_point> look_again;  // even if nothing is heard

  bool is_nothing() const { return !failure && !changed && announcements.empty(); }
};

Decision decide(const Facts& facts, const OrchestratorTerms& terms);

// With claim_id, artefact_id and reason.
board::WorkflowEvent claim_event(std::string name, const board::Claim& claim,
                                 std::string_view reason);

}  // namespace warren::orchestrator
