#pragma once
// What should happen to a claim next: facts in, intention out.
//
//   bidding --all bids--> review --all approve--> parallel --all done--> exclusive --> complete
//      |                    |                        |                      |
//      | nobody bids        | somebody rejects       | an agent fails       | no worker is free
//      v                    v                        v                      v
//   complete           terminated, and a         terminated             in the grant queue
//                      feedback claim
//
// A phase for which nobody bid is left out. Nothing is remembered between two decisions but what is
// in the claim, so whoever takes over continues where it stood by looking at the facts.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "board/events.h"
#include "board/types.h"
#include "orchestrator/terms.h"

namespace warren::orchestrator {

// What a decision needs to know of an artefact.
struct Part {
  std::string id, role;
  board::StructuralType structural_type = board::StructuralType::standard;
  std::int64_t version = 1;
  bool approves = false;  // as a review: its payload is {} or []
  std::string feedback;   // how its payload begins
};
Part part_of(const board::Artefact& artefact);

// Where an artefact stands in its workflow.
struct Standing {
  std::string goal;
  int depth = 0;
  int artefacts = 0;  // of the whole workflow
  board::UnixTime started_at{};
  bool is_cancelled = false;
};

struct Facts {
  board::Claim claim;
  Part target;
  board::Bids bids;
  std::vector<Part> children;  // that name the target as a source and came after the claim
  board::UnixTime now{};
  // When this orchestrator last told the agents of the claim, or of its grant. None: not yet, so
  // they may have missed it.
  std::optional<board::UnixTime> told_at;
  bool is_paused = false;
  std::set<std::string> busy;        // roles that can have no exclusive grant of this claim now
  std::optional<Standing> workflow;  // known where somebody asks for it
};

struct Decision {
  std::optional<board::Artefact> failure;  // to be created before the claim is changed
  std::optional<board::Claim> changed;
  std::optional<board::Claim> feedback;  // takes the place of the changed one
  std::vector<board::Announcement> announcements;
  bool tells_agents = false;                  // among the announcements
  std::optional<board::UnixTime> look_again;  // even if nothing is heard

  bool is_nothing() const { return !failure && !changed && announcements.empty(); }
};

Decision decide(const Facts& facts, const OrchestratorTerms& terms);

// The phase that the claim is in; none while bids are awaited. The Go program may have been stopped
// between granting and writing that down.
std::optional<board::PhaseState> phase_of(const board::Claim& claim, const board::Bids& bids);
// The bids that count, by configured roles, and whose are missing.
struct Consensus {
  board::Bids bids;
  board::Words missing;
};
Consensus consensus(const board::Bids& bids, const Part& target, const OrchestratorTerms& terms);

// With claim_id, artefact_id and reason.
board::WorkflowEvent claim_event(std::string name, const board::Claim& claim,
                                 std::string_view reason);

}  // namespace warren::orchestrator
