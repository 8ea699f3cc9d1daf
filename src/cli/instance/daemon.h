#pragma once
// What runs for an instance while it holds its name: the orchestrator of its board, the agents that
// its file describes, and its status page.
#include <algorithm>
#include <deque>

#include "base/metrics.h"
#include "net/http/server.h"
#include "services/board/agent/agent.h"
#include "services/board/crew/crew.h"
#include "services/board/orchestrator/orchestrator.h"
#include "services/instance/registry.h"

namespace warren::cli {

OrchestratorTerms orchestrator_terms(const Crew& crew);

class Daemon {
 public:
  // Without a crew there are no agents: work on the board waits.
  Daemon(std::string prefix, Instance instance, Board board, std::optional<Crew> crew);

  Instance& instance() { return instance_; }
  // Runs until it is cancelled, or until another process becomes the orchestrator of this board.
  // Without `with_agents`, the agents run elsewhere.
  Async<> work(LeaseSession& session, bool with_agents);
  bool is_ready() const;
  awaitable<void> ready();  // returns once is_ready()
  HttpAnswer answer(const HttpRequest& request) const;

 private:
  Async<> tell_agents();
  Async<> work_under(Lease& lease, bool with_agents);
  std::string page() const;

  std::string prefix_;
  Instance instance_;
  Board board_;
  std::optional<Crew> crew_;
  std::optional<Orchestrator> orchestrator_;
  std::deque<Agent> agents_;
  Event staffed_;  // the orchestrator and the agents are running
  mutable Metrics metrics_;
  std::vector<std::shared_ptr<void>> published_;
};

}  // namespace warren::cli
