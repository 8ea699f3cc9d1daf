#pragma once
// An agent: one role on a board. It bids on claims, and works off what it is granted.
//
//   orchestrator             board                     agent
//     |-- create_claim ------>|--- claim event --------->|   Events say when to look. What is done
//     |                       |<-- set_bid --------------|   follows from the board itself: who
//     |-- update_claim ------>|--- grant --------------->|   missed something, or starts later,
//     |                       |<-- the claim, my result? |   looks at the open claims and goes on.
//     |                       |                          |── the tool runs
//     |                       |<-- the claim, once more  |
//     |<- artefact event -----|<-- create_artefact ------|   under the one id of claim and role
//
//   Agent agent(board, {.role = *crew.find("Coder"), .workspace = folder});
//   auto ended = co_await agent.run();
//
// Several agents may have one role, here or elsewhere: each then runs its tool for a grant, and one
// result, the first, is ever there. Bidding never waits for a tool. docs/protocols/agent.md.
#include <deque>
#include <filesystem>
#include <set>
#include <string>

#include "services/board/crew/crew.h"
#include "services/board/store/board.h"
#include "services/board/store/feed.h"

namespace warren {

struct AgentTerms {
  crew::Role role;
  std::filesystem::path workspace;
  Clock::duration sweep_every = 30s;  // should an event have been lost all the same
  Clock::duration look_every = 1s;    // whether a grant that is being worked off still stands
};

struct AgentStats {
  std::size_t running = 0, queued = 0;  // grants
  std::uint64_t bids = 0, results = 0, failures = 0;
};

namespace agent {

// As what the role works on the claim in its present phase; none when it does not.
std::optional<board::BidType> granted_as(const board::Claim& claim, std::string_view role);

}  // namespace agent

class Agent {
 public:
  // The board's client outlives it.
  Agent(Board board, AgentTerms terms);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Until it is cancelled. Then its tools get SIGTERM, and soon SIGKILL, and nothing is written for
  // them: the grants stand, and whoever has the role next works them off. What goes wrong before is
  // logged and tried again.
  Async<> run();

  // It hears everything, and has looked at all that there was.
  bool is_ready() const { return is_ready_; }
  awaitable<void> ready();  // returns when that is so
  AgentStats stats() const;

 private:
  struct Bidding {
    std::string claim_id, artefact_id;
  };

  Async<> work(TaskGroup& tasks, BoardFeed& feed);
  void on_event(const board::BoardEvent& event);
  awaitable<void> keep_sweeping();
  Async<> sweep();
  Async<> make_true();
  void consider(const board::Claim& claim);
  bool is_at(const std::string& claim_id) const;  // it is in the queue, or runs

  void want_bid(Bidding bidding);
  void want_work(const std::string& claim_id);
  void pump();
  awaitable<void> bid(Bidding bidding);
  Async<std::optional<board::BidType>> choose_bid(const Bidding& bidding);
  Async<board::BidType> ask_script(board::Artefact artefact);

  awaitable<void> perform(std::string claim_id);
  // Whether the grant has its result now.
  Async<bool> perform_granted(board::Claim claim, board::BidType type);
  Async<bool> has_result(const board::Claim& claim);
  Async<board::Artefact> produce(const board::Claim& claim, board::BidType type);
  // The same for as long as the grant stands. Errc::cancelled: it was taken back, or we were stopped.
  Async<board::Artefact> produce_while_granted(const board::Claim& claim, board::BidType type);
  Async<board::Artefact> produce_to_the_end(const board::Claim& claim, board::BidType type);
  awaitable<void> until_taken_back(std::string claim_id, board::BidType type);
  // Until it is written or the grant is over: false then.
  Async<bool> deliver(const board::Claim& claim, board::BidType type, board::Artefact result);
  Async<bool> deliver_once(const board::Claim& claim, board::BidType type,
                           const board::Artefact& result);
  Async<> write(const board::Claim& claim, board::Artefact result);
  Async<> give_up(const board::Claim& claim, const Error& why);

  Board board_;
  AgentTerms terms_;
  const crew::Role& role_ = terms_.role;
  TaskGroup* tasks_ = nullptr;  // while it runs
  bool is_ready_ = false, needs_sweep_ = true;
  int sweeps_until_index_ = 0;
  std::deque<Bidding> bids_wanted_;
  std::set<std::string> bidding_;  // wanted or being made
  std::set<std::string> bid_on_;   // claims that have our bid
  std::size_t bids_running_ = 0;
  std::deque<std::string> queue_;  // claims that were granted to us
  std::set<std::string> taken_;    // in the queue, running, or done
  std::set<std::string> running_;
  AgentStats stats_;
  Event sweep_wanted_, became_ready_;
};

}  // namespace warren
