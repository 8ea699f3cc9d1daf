#include "services/board/orchestrator/facts.h"

#include "services/board/store/json_parts.h"

namespace warren::orchestrator {

using namespace board;

namespace {

// More than is ever told of a payload.
constexpr std::size_t kept_feedback = 512;

// An empty object or list. What cannot be read does not approve.
bool is_approval(std::string_view payload) {
  if (payload.size() > kept_feedback) return false;
  auto value = parts::parse(payload);
  if (!value) return false;
  if (value->is_object()) return value->get_object().empty();
  return value->is_array() && value->get_array().empty();
}

}  // namespace

Part part_of(const Artefact& artefact) {
  return {artefact.id,
          artefact.produced_by_role,
          artefact.structural_type,
          artefact.version,
          is_approval(artefact.payload),
          artefact.payload.substr(0, kept_feedback),
          artefact.source_artefacts.empty()};
}

std::optional<PhaseState> phase_of(const Claim& claim, const Bids& bids) {
  if (claim.phase_state) {
    auto phase = *claim.phase_state;
    // As the Go program leaves it in its queue, or when it takes a claim out of that.
    std::erase(phase.granted_agents, "");
    bool is_behind = claim.status == ClaimStatus::pending_exclusive &&
                     (phase.current != Phase::exclusive || phase.granted_agents.empty());
    if (!is_behind) return phase;
    PhaseState exclusive{Phase::exclusive, {}, {}, phase.all_bids, phase.start_time};
    if (!claim.granted_exclusive_agent.empty())
      exclusive.granted_agents = {claim.granted_exclusive_agent};
    return exclusive;
  }
  switch (claim.status) {
    case ClaimStatus::pending_review:
      if (claim.granted_review_agents.empty()) return {};
      return PhaseState{Phase::review, claim.granted_review_agents, {}, bids, {}};
    case ClaimStatus::pending_parallel:
      return PhaseState{Phase::parallel, claim.granted_parallel_agents, {}, bids, {}};
    case ClaimStatus::pending_exclusive: {
      PhaseState phase{Phase::exclusive, {}, {}, bids, {}};
      if (!claim.granted_exclusive_agent.empty())
        phase.granted_agents = {claim.granted_exclusive_agent};
      return phase;
    }
    default:
      return {};
  }
}

Consensus consensus(const Bids& bids, const Part& target, const OrchestratorTerms& terms) {
  Consensus found;
  for (const auto& [role, role_terms] : terms.roles) {
    auto bid = bids.find(role);
    if (bid == bids.end()) {
      found.missing.push_back(role);
      continue;
    }
    bool feeds_itself =
        role == target.role && !role_terms.works_on_own_output && bid->second != BidType::review;
    found.bids[role] = feeds_itself ? BidType::ignore : bid->second;
  }
  return found;
}

}  // namespace warren::orchestrator
