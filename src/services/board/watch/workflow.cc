#include "services/board/watch/workflow.h"

#include <algorithm>
#include <deque>

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
  if (state_ == State::open && artefact.structural_type == StructuralType::failure) {
    state_ = State::failed;
    why_ = why_of(artefact);
  }
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

namespace {

void note(const Claim& claim, const Artefact& target, Progress& into) {
  if (claim.status == ClaimStatus::terminated)
    into.reasons.push_back(claim.termination_reason);
  else if (!is_open(claim.status))
    return;
  else if (is_untaken(claim))
    into.untaken.push_back(claim.id);
  else if (target.structural_type == StructuralType::question && !claim.phase_state)
    into.questions.push_back(target.id);
  else
    ++into.under_way;
}

}  // namespace

// Of each artefact the claim is read before its children: a claim that is over has its result among
// these.
Async<Progress> progress_of(Board board, std::string goal_id) {
  Progress progress;
  auto goal = co_await board.artefact(std::move(goal_id));
  if (!goal) co_return std::unexpected(goal.error());
  std::unordered_set<std::string> seen{goal->id};
  std::deque<Artefact> below;
  below.push_back(*std::move(goal));
  while (!below.empty()) {
    auto artefact = std::move(below.front());
    below.pop_front();
    ++progress.artefacts;
    if (needs_claim(artefact.structural_type)) {
      auto claim = co_await board.claim_on(artefact.id);
      if (claim)
        note(*claim, artefact, progress);
      else if (claim.error().code == Errc::not_found)
        ++progress.unclaimed;
      else
        co_return std::unexpected(claim.error());
    }
    auto children = co_await board.children(artefact.id);
    if (!children) co_return std::unexpected(children.error());
    for (auto& child : children->items)
      if (seen.insert(child.id).second) below.push_back(std::move(child));
  }
  co_return progress;
}

}  // namespace warren::watch
