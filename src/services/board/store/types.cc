#include "services/board/store/types.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "base/uuid.h"
#include "redis/resp/reply.h"
#include "services/board/store/causes.h"

namespace warren::board {
namespace {

using namespace std::string_view_literals;

constexpr std::array structural_types{"Standard"sv, "Review"sv,  "Question"sv,
                                      "Answer"sv,   "Failure"sv, "Terminal"sv};
constexpr std::array statuses{"pending_review"sv,     "pending_parallel"sv, "pending_exclusive"sv,
                              "pending_assignment"sv, "complete"sv,         "terminated"sv};
constexpr std::array bid_types{"review"sv, "claim"sv, "exclusive"sv, "ignore"sv};
constexpr std::array phases{"review"sv, "parallel"sv, "exclusive"sv};

template <class Enum, std::size_t n>
std::optional<Enum> parse(const std::array<std::string_view, n>& names, std::string_view text) {
  auto found = std::ranges::find(names, text);
  if (found == names.end()) return {};
  return static_cast<Enum>(found - names.begin());
}

template <std::size_t n, class Enum>
std::string_view spelled(const std::array<std::string_view, n>& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

std::string shortened(std::string_view text) {
  return redis::quoted(text.substr(0, 60)) + (text.size() > 60 ? "…" : "");
}

template <class... Args>
std::unexpected<Error> bad(std::string_view field, fmt::format_string<Args...> format,
                           Args&&... args) {
  auto why = fmt::format("{}: {}", field, fmt::format(format, std::forward<Args>(args)...));
  return fail(Errc::invalid, causes::bad_field, why, "{}", why);
}

Result<> check_length(std::string_view field, std::size_t size, std::size_t most) {
  if (size <= most) return ok;
  return bad(field, "{} bytes are more than {}", size, most);
}

// A word goes into JSON, and for roles into keys and channels: what others read must be the same.
Result<> check_word(std::string_view field, std::string_view word, std::size_t most) {
  if (auto fits = check_length(field, word.size(), most); !fits) return fits;
  if (valid_utf8(word) != word) return bad(field, "{} is not UTF-8", shortened(word));
  return ok;
}

Result<> check_name(std::string_view field, std::string_view word) {
  if (word.empty()) return bad(field, "must not be empty");
  return check_word(field, word, limits::word);
}

template <class List>
Result<> check_size(std::string_view field, const List& list) {
  if (list.size() <= limits::list) return ok;
  return bad(field, "{} entries are more than {}", list.size(), limits::list);
}

Result<> check_ids(std::string_view field, const Words& ids) {
  auto checked = check_size(field, ids);
  for (std::size_t i = 0; checked && i < ids.size(); ++i) checked = check_id(field, ids[i]);
  return checked;
}

Result<> check_names(std::string_view field, const Words& names) {
  auto checked = check_size(field, names);
  for (std::size_t i = 0; checked && i < names.size(); ++i) checked = check_name(field, names[i]);
  return checked;
}

Result<> check_phase(const Claim& claim) {
  if (!claim.phase_state) return ok;
  const auto& state = *claim.phase_state;
  auto checked = check_names("phase_state.granted_agents", state.granted_agents);
  if (checked) checked = check_size("phase_state.received", state.received);
  if (checked) checked = check_size("phase_state.all_bids", state.all_bids);
  for (const auto& [role, artefact] : state.received) {
    if (checked) checked = check_name("phase_state.received", role);
    if (checked) checked = check_id("phase_state.received", artefact);
  }
  for (const auto& [role, bid] : state.all_bids)
    if (checked) checked = check_name("phase_state.all_bids", role);
  // The Go program's recovery takes the first of them without looking.
  if (checked && claim.status == ClaimStatus::pending_exclusive && claim.artefact_expected &&
      state.granted_agents.empty())
    return bad("phase_state.granted_agents", "nobody, and an artefact is expected");
  return checked;
}

bool is_granted(const Claim& claim) {
  return !claim.granted_review_agents.empty() || !claim.granted_parallel_agents.empty() ||
         !claim.granted_exclusive_agent.empty();
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

}  // namespace

std::string_view name(StructuralType type) { return spelled(structural_types, type); }
std::string_view name(ClaimStatus status) { return spelled(statuses, status); }
std::string_view name(BidType type) { return spelled(bid_types, type); }
std::string_view name(Phase phase) { return spelled(phases, phase); }

std::optional<StructuralType> parse_structural_type(std::string_view text) {
  return parse<StructuralType>(structural_types, text);
}
std::optional<ClaimStatus> parse_claim_status(std::string_view text) {
  return parse<ClaimStatus>(statuses, text);
}
std::optional<BidType> parse_bid_type(std::string_view text) {
  return parse<BidType>(bid_types, text);
}
std::optional<Phase> parse_phase(std::string_view text) { return parse<Phase>(phases, text); }

bool is_untaken(const Claim& claim) {
  return claim.untaken_since > UnixTime{} && claim.status == ClaimStatus::pending_review &&
         !claim.phase_state && !is_granted(claim);
}

bool was_left_alone(const Claim& claim) {
  return claim.status == ClaimStatus::complete && claim.phase_state && !is_granted(claim) &&
         claim.phase_state->granted_agents.empty() && claim.phase_state->received.empty();
}

Result<> check(const Artefact& artefact) {
  auto checked = check_id("id", artefact.id);
  if (checked) checked = check_id("logical_id", artefact.logical_id);
  if (checked && (artefact.version < 1 || artefact.version > 1'000'000'000))
    return bad("version", "{} is not 1 to 1000000000", artefact.version);
  if (checked) checked = check_name("type", artefact.type);
  if (checked) checked = check_length("payload", artefact.payload.size(), limits::payload);
  if (checked) checked = check_ids("source_artefacts", artefact.source_artefacts);
  if (checked) checked = check_name("produced_by_role", artefact.produced_by_role);
  auto ms = artefact.created_at.time_since_epoch().count();
  if (checked && (ms < 0 || ms > 1LL << 52))
    return bad("created_at_ms", "{} is no time since 1970", ms);
  return checked;
}

Result<> check(const Claim& claim) {
  auto checked = check_id("id", claim.id);
  if (checked) checked = check_id("artefact_id", claim.artefact_id);
  if (checked) checked = check_names("granted_review_agents", claim.granted_review_agents);
  if (checked) checked = check_names("granted_parallel_agents", claim.granted_parallel_agents);
  if (checked)
    checked = check_word("granted_exclusive_agent", claim.granted_exclusive_agent, limits::word);
  if (checked) checked = check_ids("additional_context_ids", claim.additional_context_ids);
  if (checked) checked = check_word("termination_reason", claim.termination_reason, limits::text);
  if (checked) checked = check_phase(claim);
  if (checked && claim.grant_queue)
    checked = check_name("grant_queue.agent_name", claim.grant_queue->agent_name);
  if (checked) checked = check_word("last_grant_agent", claim.last_grant_agent, limits::word);
  if (checked)
    checked = check_word("granted_agent_image_id", claim.granted_agent_image_id, limits::word);
  return checked;
}

Result<> check_role(std::string_view role) { return check_name("role", role); }

Result<> check_id(std::string_view field, std::string_view id) {
  auto canonical = canonical_uuid(id);
  if (!canonical) return bad(field, "{} is no UUID", shortened(id));
  if (*canonical != id) return bad(field, "{} must be written {}", shortened(id), *canonical);
  return ok;
}

std::optional<std::string> canonical_uuid(std::string_view text) {
  if (text.size() == 45 && text.substr(0, 9) == "urn:uuid:") text.remove_prefix(9);
  if (text.size() == 38 && text.front() == '{' && text.back() == '}') text = text.substr(1, 36);
  if (text.size() != 32 && !is_uuid(text)) return {};
  std::string canonical;
  for (char c : text) {
    if (c == '-' && text.size() == 36) continue;
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    if (!is_hex(c)) return {};
    canonical += c;
  }
  for (std::size_t at : {8u, 13u, 18u, 23u}) canonical.insert(at, 1, '-');
  return canonical;
}

}  // namespace warren::board
