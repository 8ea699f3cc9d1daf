#pragma once
// What an instance asks of its orchestrator.
#include <chrono>
#include <map>
#include <string>

namespace warren {

struct RoleTerms {
  int max_concurrent = 0;  // exclusive grants at once; 0: as many as there are
  // Whether its bids to work on what it made itself count. Without a limit on the workflow, an
  // agent that wants everything then never comes to an end.
  bool works_on_own_output = false;
  std::string image_id;  // told with its grants
};

// What happens to bids that are missing when bid_time is over.
enum class MissingBids {
  ignore,  // they count as `ignore`
  wait,    // the claim is told again, and waits on
};

// Of a workflow: a goal, which is an artefact without sources, and all that came of it. 0: none.
struct WorkflowLimits {
  int depth = 0;      // sources between an artefact and its goal
  int artefacts = 0;  // with the goal
  std::chrono::milliseconds time{};
};

struct OrchestratorTerms {
  std::map<std::string, RoleTerms> roles;
  int max_review_iterations = 3;  // 0: no limit
  std::chrono::milliseconds bid_time = std::chrono::seconds(30);
  MissingBids missing_bids = MissingBids::ignore;
  WorkflowLimits limits;
  // Everything is looked at so often, should an event have been lost all the same.
  std::chrono::milliseconds sweep_every = std::chrono::seconds(30);
};

}  // namespace warren
