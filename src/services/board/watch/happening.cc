#include "services/board/watch/happening.h"

#include <algorithm>

#include "services/board/store/json_parts.h"
#include "services/board/watch/text.h"

namespace warren::watch {

using namespace board;

namespace {

bool is_review(const WorkflowEvent& event) {
  return event.name == "review_approved" || event.name == "review_rejected";
}

std::string key(const Artefact& artefact) { return "artefact " + artefact.id; }
std::string key(const Claim& claim) { return "claim " + claim.id; }
std::string key(const WorkflowEvent& event) {
  if (event.name == "artefact_reworked") return "reworked " + text_of(event, "new_artefact_id");
  if (is_review(event))
    return fmt::format("review {} {}", text_of(event, "original_artefact_id"),
                       text_of(event, "reviewer_role"));
  return {};
}

Subject subject(const Artefact& artefact) {
  return {artefact.id, "", artefact.type, {artefact.produced_by_role}};
}

Subject subject(const Claim& claim) {
  Subject subject{claim.artefact_id, claim.id, "", claim.granted_review_agents};
  const auto& parallel = claim.granted_parallel_agents;
  subject.agents.insert(subject.agents.end(), parallel.begin(), parallel.end());
  if (!claim.granted_exclusive_agent.empty())
    subject.agents.push_back(claim.granted_exclusive_agent);
  return subject;
}

Subject subject(const WorkflowEvent& event) {
  Subject subject;
  auto first_of = [&event](std::initializer_list<std::string_view> members) {
    for (auto member : members)
      if (auto text = text_of(event, member); !text.empty()) return text;
    return std::string();
  };
  subject.artefact_id = first_of({"new_artefact_id", "original_artefact_id", "artefact_id"});
  subject.claim_id = first_of({"claim_id", "feedback_claim_id", "original_claim_id"});
  subject.type = text_of(event, "artefact_type");
  auto agent = first_of({"agent_name", "reviewer_role", "target_agent_role", "produced_by_role"});
  if (!agent.empty()) subject.agents.push_back(std::move(agent));
  return subject;
}

}  // namespace

std::string text_of(const WorkflowEvent& event, std::string_view member) {
  const auto* value = event.data.if_contains(member);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::string key_of(const Happening& happening) {
  return std::visit([](const auto& what) { return key(what); }, happening.what);
}

bool is_terminal(const Happening& happening) {
  const auto* artefact = std::get_if<Artefact>(&happening.what);
  return artefact && artefact->structural_type == StructuralType::terminal;
}

bool is_approval(std::string_view payload) {
  auto value = parts::parse(payload);
  return value && ((value->is_object() && value->get_object().empty()) ||
                   (value->is_array() && value->get_array().empty()));
}

std::string why_of(const Artefact& failure) {
  auto value = parts::parse(failure.payload);
  if (value && value->is_object())
    if (auto reason = parts::text(value->get_object().if_contains("reason"));
        reason && !reason->empty())
      return *std::move(reason);
  return std::string(first_line(failure.payload));
}

std::vector<Happening> history_of(Artefact artefact) {
  auto at = artefact.created_at;
  std::string source = artefact.source_artefacts.empty() ? "" : artefact.source_artefacts.front();
  std::vector<Happening> all;
  if (artefact.version > 1) all.push_back({at, artefact_reworked(artefact, source)});
  if (artefact.structural_type == StructuralType::review && !source.empty())
    all.push_back({at, is_approval(artefact.payload)
                           ? review_approved(artefact.produced_by_role, source)
                           : review_rejected(artefact.produced_by_role, source, artefact.payload)});
  all.insert(all.begin(), Happening{at, std::move(artefact)});
  return all;
}

Subject subject_of(const Happening& happening) {
  return std::visit([](const auto& what) { return subject(what); }, happening.what);
}

}  // namespace warren::watch
