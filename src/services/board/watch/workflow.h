#pragma once
// One workflow: a goal, and all that came of it.
#include <string>
#include <unordered_set>

#include "services/board/watch/happening.h"

namespace warren::watch {

class Workflow {
 public:
  explicit Workflow(std::string goal_id) { artefacts_.insert(std::move(goal_id)); }

  // Whether it belongs to the workflow: an artefact made from one that does, a claim on one, and
  // what is told about those.
  bool takes(const Happening& happening);
  enum class State { open, completed, failed };
  State state() const { return state_; }

 private:
  bool takes(const board::Artefact& artefact);
  bool takes(const board::Claim& claim);
  bool takes(const board::WorkflowEvent& event);

  std::unordered_set<std::string> artefacts_, claims_;
  State state_ = State::open;
};

}  // namespace warren::watch
