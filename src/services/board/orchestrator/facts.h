#pragma once
// What a decision on a claim is made from.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "services/board/orchestrator/terms.h"
#include "services/board/store/types.h"

namespace warren::orchestrator {

// What a decision needs to know of an artefact.
struct Part {
  std::string id, role;
  board::StructuralType structural_type = board::StructuralType::standard;
  std::int64_t version = 1;
  bool approves = false;  // as a review: its payload is {} or []
  std::string feedback;   // how its payload begins
  bool is_goal = false;   // it came of nothing else
};
Part part_of(const board::Artefact& artefact);

// Where an artefact stands in its workflow.
struct Standing {
  std::string goal;
  int depth = 0;
  int artefacts = 0;  // of the whole workflow
  Clock::time_point started_at{};
  bool is_cancelled = false;
  std::string cancel_reason = {};  // of who did it; empty: an older Warren wrote none
};

struct Facts {
  board::Claim claim;
  Part target;
  board::Bids bids;
  std::vector<Part> children;  // that name the target as a source and came after the claim
  Clock::time_point now{};     // what time is left is measured by this
  board::UnixTime stamp{};     // what time it is, for what is written down
  // When this orchestrator last told the agents of the claim, or of its grant. None: not yet, so
  // they may have missed it.
  std::optional<Clock::time_point> told_at;
  bool is_paused = false;
  std::set<std::string> busy;        // roles that can have no exclusive grant of this claim now
  std::optional<Standing> workflow;  // known where somebody asks for it
};

// The phase that the claim is in; none while bids are awaited. The Go program may have been stopped
// between granting and writing that down.
std::optional<board::PhaseState> phase_of(const board::Claim& claim, const board::Bids& bids);
// The bids that count, by configured roles, and whose are missing.
struct Consensus {
  board::Bids bids;
  board::Words missing;
};
Consensus consensus(const board::Bids& bids, const Part& target, const OrchestratorTerms& terms);

}  // namespace warren::orchestrator
