#include "services/board/watch/workflow.h"

#include <algorithm>

namespace warren::watch {

using namespace board;

bool Workflow::takes(const Happening& happening) {
  return std::visit([this](const auto& what) { return takes(what); }, happening.what);
}

bool Workflow::takes(const Artefact& artefact) {
  bool is_of_it = artefacts_.contains(artefact.id) ||
                  std::ranges::any_of(artefact.source_artefacts, [this](const auto& source) {
                    return artefacts_.contains(source);
                  });
  if (!is_of_it) return false;
  artefacts_.insert(artefact.id);
  if (state_ == State::open && artefact.structural_type == StructuralType::terminal)
    state_ = State::completed;
  if (state_ == State::open && artefact.structural_type == StructuralType::failure)
    state_ = State::failed;
  return true;
}

bool Workflow::takes(const Claim& claim) {
  if (!artefacts_.contains(claim.artefact_id)) return false;
  claims_.insert(claim.id);
  return true;
}

bool Workflow::takes(const WorkflowEvent& event) {
  auto subject = subject_of({{}, event});
  return artefacts_.contains(subject.artefact_id) || claims_.contains(subject.claim_id) ||
         claims_.contains(text_of(event, "original_claim_id"));
}

}  // namespace warren::watch
