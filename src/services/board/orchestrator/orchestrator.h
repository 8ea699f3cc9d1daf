#pragma once
// An orchestrator: decides on a board who works on what.
//
//   board                   orchestrator                       agents
//     |--- artefact event ------->|                               |   Events say when to look; what
//     |<-- create_claim ----------|                               |   is decided follows from what
//     |--- claim event ------------------------------------------>|   is on the board (decide.h).
//     |<-- set_bid -----------------------------------------------|   So nothing is lost with an
//     |--- bid_submitted -------->|                               |   event, or with an
//     |<-- update_claim, grant ---| as it was read, and fenced    |   orchestrator: the next one
//     |--- grant ------------------------------------------------>|   looks at all open claims and
//     |<-- create_artefact ---------------------------------------|   goes on.
//     |--- artefact event ------->|                               |
//     |<-- update_claim: complete |                               |
//
//   Orchestrator orchestrator(board, [&lease, key] { return board::Fence{key, lease.token()}; },
//                             terms);
//   auto ended = co_await orchestrator.run();
//
// What users do to a running one: control.h. Why it is safe: docs/protocols/orchestrator.md.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/task.h"
#include "services/board/orchestrator/open_claims.h"
#include "services/board/orchestrator/terms.h"
#include "services/board/orchestrator/workflows.h"
#include "services/board/store/board.h"
#include "services/board/store/feed.h"

namespace warren {

struct OrchestratorStats {
  bool is_ready = false;   // hears everything, and has looked at all that there was
  bool is_paused = false;  // see control.h
  std::size_t open_claims = 0;
  std::size_t waiting_looks = 0;  // claims and artefacts whose turn has not come
  std::uint64_t events = 0, malformed = 0, gaps = 0, sweeps = 0;
  std::uint64_t claims_created = 0, grants = 0, claims_queued = 0;
  std::uint64_t claims_completed = 0, claims_terminated = 0, feedback_claims = 0;
  std::uint64_t errors = 0;  // after each of which it was tried again
};

class Orchestrator {
 public:
  // Under which lease it writes, asked before each write: a token may grow while its lease is held.
  using Fencing = std::function<std::optional<board::Fence>()>;

  // The board's client outlives it.
  Orchestrator(Board board, Fencing fencing, OrchestratorTerms terms);

  // Once, until it is cancelled, or Errc::lease_lost: somebody else is the orchestrator. Whatever
  // else goes wrong is logged and tried again.
  Async<> run();

  bool is_ready() const { return is_ready_; }
  awaitable<void> ready();  // returns when that is so
  OrchestratorStats stats() const;
  // Keeps warren_orchestrator_… up to date for as long as the caller keeps what is returned.
  [[nodiscard]] std::shared_ptr<void> publish(Metrics& metrics) const;

 private:
  // What was heard, and may not be in the indexes yet.
  struct Heard {
    board::Artefact artefact;  // without its payload
    orchestrator::Part part;
  };
  enum class Outcome { done, again, later };

  Async<> work(TaskGroup& tasks, BoardFeed& feed);
  awaitable<void> listen(BoardFeed& feed);
  void on_event(board::BoardEvent event);
  void on_artefact(board::Artefact artefact);
  void on_workflow_event(const board::WorkflowEvent& event);
  void claim_soon(const orchestrator::Part& target);

  awaitable<void> keep_sweeping();
  Async<> sweep();
  Async<> begin_indexing();
  Async<> read_switches();
  Async<> find_open_claims();
  Async<> find_unclaimed();
  awaitable<void> keep_indexed();
  Async<> adopt(std::vector<Heard> heard);
  awaitable<void> keep_time();

  void pump();
  void expect(const board::Claim& claim, const orchestrator::Part& target);
  awaitable<void> claim(orchestrator::Part target);
  awaitable<void> look(std::string claim_id);
  Async<> read(orchestrator::OpenClaim& open);
  Async<> complete_facts(orchestrator::OpenClaim& open);
  Async<> apply(orchestrator::OpenClaim& open, orchestrator::Decision decision);
  Async<> replace(orchestrator::OpenClaim& open, orchestrator::Decision decision);
  Outcome judge(orchestrator::OpenClaim& open, const Error& error);
  void count(const orchestrator::Decision& decision);

  board::WriteTerms writing() const;
  // True when it means the end of this orchestrator.
  bool note(const Error& error, std::string_view what, std::string_view id);
  void sweep_soon();

  Board board_;
  Fencing fencing_;
  OrchestratorTerms terms_;
  orchestrator::OpenClaims open_;
  orchestrator::Workflows workflows_;
  std::deque<orchestrator::Part> unclaimed_;
  std::set<std::string>
      claiming_;  // artefacts that are in unclaimed_, or for which a claim is made
  std::vector<Heard> heard_;
  std::map<std::string, std::string> cancelled_;  // goals, and why
  std::uint64_t switches_heard_ = 0;  // that it was paused, resumed, or a goal cancelled
  bool is_paused_ = false, is_ready_ = false, is_swept_ = false;
  bool needs_sweep_ = false, needs_reindex_ = false, is_pumping_ = false;
  std::size_t looks_ = 0;
  TaskGroup* tasks_ = nullptr;  // while it runs
  std::optional<Error> lost_;
  Event over_, sweep_wanted_, heard_any_, time_changed_, became_ready_;
  Clock::time_point next_wake_ = Clock::time_point::max();
  OrchestratorStats stats_;
};

}  // namespace warren
