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
  const std::string& why() const { return why_; }  // it failed

 private:
  bool takes(const board::Artefact& artefact);
  bool takes(const board::Claim& claim);
  bool takes(const board::WorkflowEvent& event);

  std::unordered_set<std::string> artefacts_, claims_;
  State state_ = State::open;
  std::string why_;
};

// What is still to be done for a goal, from the board itself: of an end that nobody tells (a claim
// that all left alone, one that was cancelled, an event that was missed) nothing else knows.
struct Progress {
  std::size_t artefacts = 0;
  std::size_t under_way = 0;  // claims that somebody bids or works on, or that wait in a queue
  std::size_t unclaimed = 0;  // artefacts that an orchestrator has to claim
  std::vector<std::string> questions;  // that wait for an answer
  std::vector<std::string> untaken;    // claims that nobody has taken
  std::vector<std::string> reasons;    // of the claims that were terminated, as they were found
  bool is_over() const { return under_way == 0 && unclaimed == 0 && questions.empty(); }
};
Async<Progress> progress_of(Board board, std::string goal_id);

}  // namespace warren::watch
