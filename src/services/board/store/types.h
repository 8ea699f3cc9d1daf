#pragma once
// What is on a board: artefacts, the claims that say who may work on them, and the bids for those.
//
// Names, spellings and rules are those of the Go program with which a board may be shared. An id is
// a UUID. We write the canonical form only; a reader takes whatever that program takes.
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren::board {

using UnixTime = std::chrono::sys_time<std::chrono::milliseconds>;
using Words = std::vector<std::string>;

enum class StructuralType { standard, review, question, answer, failure, terminal };
enum class ClaimStatus {
  pending_review,
  pending_parallel,
  pending_exclusive,
  pending_assignment,  // a feedback claim: given to whoever made the artefact, nobody bids
  complete,
  terminated,
};
enum class BidType { review, claim, exclusive, ignore };  // `claim`: to work in parallel
enum class Phase { review, parallel, exclusive };

inline constexpr ClaimStatus claim_statuses[] = {
    ClaimStatus::pending_review,     ClaimStatus::pending_parallel, ClaimStatus::pending_exclusive,
    ClaimStatus::pending_assignment, ClaimStatus::complete,         ClaimStatus::terminated};
inline bool is_open(ClaimStatus status) { return status < ClaimStatus::complete; }

// As they are spelled in Redis: "Standard", "pending_review", "claim", "parallel".
std::string_view name(StructuralType type);
std::string_view name(ClaimStatus status);
std::string_view name(BidType type);
std::string_view name(Phase phase);
std::optional<StructuralType> parse_structural_type(std::string_view text);
std::optional<ClaimStatus> parse_claim_status(std::string_view text);
std::optional<BidType> parse_bid_type(std::string_view text);
std::optional<Phase> parse_phase(std::string_view text);

// What an orchestrator claims for somebody to work on.
inline bool needs_claim(StructuralType type) {
  return type == StructuralType::standard || type == StructuralType::question ||
         type == StructuralType::answer;
}

// A work product. Written once: a correction is the next version, an artefact of its own with the
// same logical id.
struct Artefact {
  std::string id;
  std::string logical_id;
  std::int64_t version = 1;
  StructuralType structural_type = StructuralType::standard;
  std::string type;  // of the user's domain: GoalDefined, CodeCommit
  std::string payload;
  Words source_artefacts;
  std::string produced_by_role;  // a role, "user" or "orchestrator"
  UnixTime created_at{};         // 0: not known; for a new one, the server's clock

  bool operator==(const Artefact&) const = default;
};

// How far the phase that a claim is in has come.
struct PhaseState {
  Phase current = Phase::review;
  Words granted_agents;
  std::map<std::string, std::string> received;  // role to artefact
  std::map<std::string, BidType> all_bids;
  UnixTime start_time{};

  bool operator==(const PhaseState&) const = default;
};

// A claim that waits for a free worker of a role.
struct GrantQueueEntry {
  UnixTime paused_at{};
  std::string agent_name;
  std::int64_t position = 0;

  bool operator==(const GrantQueueEntry&) const = default;
};

// Who may work on an artefact.
struct Claim {
  std::string id;
  std::string artefact_id;
  ClaimStatus status = ClaimStatus::pending_review;
  Words granted_review_agents;
  Words granted_parallel_agents;
  std::string granted_exclusive_agent;
  Words additional_context_ids;  // of the reviews that a feedback claim is about
  std::string termination_reason;
  std::optional<PhaseState> phase_state;
  std::optional<GrantQueueEntry> grant_queue;
  std::string last_grant_agent;
  std::chrono::sys_seconds last_grant_time{};
  bool artefact_expected = false;  // granted, and whoever takes over must remind the agents
  std::string granted_agent_image_id;
  // Ours (warren_children_before): what came of the artefact up to this place came before this
  // claim, and counts for an earlier one on the same artefact.
  std::int64_t children_before = 0;
  // Ours (warren_untaken_since): the time for bids was over then, and nobody who had bid wanted it.
  // The Go program lets it stand when it takes such a claim up: see is_untaken.
  UnixTime untaken_since{};
  std::string revision;  // ours (warren_revision): another one after every change; Board sets it

  bool operator==(const Claim&) const = default;
};

// Open, and waiting for somebody who wants it.
bool is_untaken(const Claim& claim);
// It ended as complete because all who were asked left it alone: nothing was done for it.
bool was_left_alone(const Claim& claim);

using Bids = std::map<std::string, BidType>;  // by role

// In the place of an image, for a role whose tools are processes.
inline constexpr std::string_view no_image = "process";

// The most that we write. What others wrote is read at any length.
namespace limits {
inline constexpr std::size_t payload = 16u << 20;
inline constexpr std::size_t event = 32u << 20;  // a byte may become six in JSON
inline constexpr std::size_t word = 255;         // a type, a role, an image
inline constexpr std::size_t text = 64u << 10;
inline constexpr std::size_t list = 1024;
}  // namespace limits

// Errc::invalid names the field and the rule that it breaks.
Result<> check(const Artefact& artefact);
Result<> check(const Claim& claim);
Result<> check_role(std::string_view role);
// The canonical form, and nothing else.
Result<> check_id(std::string_view field, std::string_view id);

// 8-4-4-4-12 lower-case digits, from that or from any other form in which a UUID may come: upper
// case, urn:uuid:…, {…}, without hyphens. None when it is no UUID.
std::optional<std::string> canonical_uuid(std::string_view text);

}  // namespace warren::board
