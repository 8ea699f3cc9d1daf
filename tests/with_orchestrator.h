#pragma once
// An orchestrator for a part of a test, and agents that the test plays.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <functional>
#include <map>
#include <set>

#include "services/board/orchestrator/orchestrator.h"
#include "services/board/store/json_parts.h"
#include "with_board.h"

namespace warren {

inline std::string fence_key(const Board& board) { return board.keys().orchestrator() + ":fence"; }

// One that runs until it is killed, also by a test that fails.
class Running {
 public:
  using Fencing = Orchestrator::Fencing;
  Running(Board& board, OrchestratorTerms terms, std::uint64_t token)
      : Running(board, std::move(terms),
                [key = fence_key(board), token] { return board::Fence{key, {0, token}}; }) {}
  Running(Board& board, OrchestratorTerms terms, Fencing fencing)
      : state_(std::make_shared<State>(board, std::move(fencing), std::move(terms))) {
    auto on_end = [state = state_](std::exception_ptr) { state->is_over = true; };
    asio::co_spawn(board.client().executor(), run_until_end(state_),
                   asio::bind_cancellation_slot(state_->cancel.slot(), on_end));
  }
  ~Running() { kill_soon(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void kill_soon() {
    if (!state_->is_over) state_->cancel.emit(asio::cancellation_type::terminal);
  }
  awaitable<void> kill() {
    kill_soon();
    co_await eventually(20s, "it is killed", is_over_now, *this);
  }
  bool is_over() const { return state_->is_over; }
  const std::optional<Error>& ended() const { return state_->ended; }  // by itself
  Orchestrator& orchestrator() { return state_->orchestrator; }

 private:
  // Shared with the task, which ends a little later than a test that fails.
  struct State {
    State(Board& board, Fencing fencing, OrchestratorTerms terms)
        : orchestrator(board, std::move(fencing), std::move(terms)) {}
    Orchestrator orchestrator;
    asio::cancellation_signal cancel;
    bool is_over = false;
    std::optional<Error> ended;
  };
  static bool is_over_now(Running& running) { return running.is_over(); }
  static awaitable<void> run_until_end(std::shared_ptr<State> state) {
    auto result = co_await state->orchestrator.run();
    if (!result) state->ended = result.error();
  }
  std::shared_ptr<State> state_;
};

// Agents of several roles, which work on each grant once. What they do is up to the test.
struct Agents {
  board::Words roles;
  std::function<std::optional<board::BidType>(const std::string& role,
                                              const board::Artefact& target)>
      bid;
  // None: they do not deliver, and can be asked again.
  std::function<std::optional<board::Artefact>(const std::string& role, const board::Claim& claim,
                                               const board::Artefact& target)>
      deliver;
  std::set<std::string> done = {};            // claim and role
  std::vector<board::BoardEvent> heard = {};  // everything, in order
  std::map<std::string, int> told = {};       // workflow events by name
  std::map<std::string, int> granted = {};    // claim_granted, by claim and role
  std::map<std::string, int> ended = {};      // by claim
};

namespace playing {

using namespace board;

inline awaitable<void> bid_on(Board& board, Agents& agents, Claim claim) {
  auto target = co_await board.artefact(claim.artefact_id);
  if (!target || !agents.bid) co_return;
  for (const auto& role : agents.roles)
    if (auto bid = agents.bid(role, *target))
      value_of(co_await board.set_bid(claim.id, role, *bid));
}

inline awaitable<void> work_on(Board& board, Agents& agents, std::string role, std::string id) {
  if (agents.done.contains(id + role) || !agents.deliver) co_return;
  auto claim = co_await board.claim(id);
  if (!claim || !is_open(claim->status)) co_return;
  auto target = value_of(co_await board.artefact(claim->artefact_id));
  auto result = agents.deliver(role, *claim, target);
  if (!result) co_return;
  agents.done.insert(id + role);
  result->produced_by_role = role;
  if (result->source_artefacts.empty()) result->source_artefacts = {target.id};
  if (claim->status == ClaimStatus::pending_assignment) result->logical_id = target.logical_id;
  value_of(co_await board.create_next_version(*result));
}

inline awaitable<void> on_claim(Board& board, Agents& agents, Claim claim) {
  if (claim.status == ClaimStatus::pending_assignment && !claim.granted_exclusive_agent.empty())
    co_await work_on(board, agents, claim.granted_exclusive_agent, claim.id);
  else if (claim.status == ClaimStatus::pending_review)
    co_await bid_on(board, agents, std::move(claim));
}

inline awaitable<void> look_around(Board& board, Agents& agents) {
  for (auto status : claim_statuses) {
    if (!is_open(status)) continue;
    Listing listing;
    listing.limit = 1000;
    for (auto& claim : value_of(co_await board.claims(status, listing)).items) {
      auto copy = claim;
      if (!claim.phase_state) co_await on_claim(board, agents, std::move(copy));
      if (!claim.phase_state) continue;
      for (const auto& role : claim.phase_state->granted_agents)
        co_await work_on(board, agents, role, claim.id);
    }
  }
}

inline void note(Agents& agents, const BoardEvent& event) {
  agents.heard.push_back(event);
  const auto* workflow = std::get_if<WorkflowEvent>(&event);
  if (!workflow) return;
  ++agents.told[workflow->name];
  auto claim = parts::text(workflow->data.if_contains("claim_id")).value_or("");
  auto role = parts::text(workflow->data.if_contains("agent_name")).value_or("");
  if (workflow->name == "claim_granted") ++agents.granted[claim + role];
  if (workflow->name == "claim_completed" || workflow->name == "claim_terminated")
    ++agents.ended[claim];
}

inline awaitable<void> listen(Board& board, BoardFeed& feed, Agents& agents) {
  for (;;) {
    auto event = co_await feed.next();
    if (!event) co_return;
    note(agents, *event);
    if (std::holds_alternative<Gap>(*event)) co_await look_around(board, agents);
    if (auto* claim = std::get_if<Claim>(&*event)) {
      auto copy = *claim;
      co_await on_claim(board, agents, std::move(copy));
    }
    if (auto* grant = std::get_if<Grant>(&*event))
      co_await work_on(board, agents, grant->role, grant->claim_id);
  }
}

}  // namespace playing

// Runs the body while the agents listen.
template <class Body, class... Args>
awaitable<void> with_agents(Board& board, Agents& agents, Body body, Args&... args) {
  board::FeedTerms terms;
  terms.all_grants = true;
  BoardFeed feed(board.client(), board.keys(), terms);
  TaskGroup tasks(board.client().executor());
  std::exception_ptr thrown;
  try {
    value_of(co_await feed.settled(Clock::now() + 10s));
    tasks.start("agents", playing::listen(board, feed, agents));
    co_await body(board, agents, args...);
  } catch (...) {
    thrown = std::current_exception();
  }
  tasks.stop();
  co_await tasks.join();
  co_await feed.close();
  if (thrown) std::rethrow_exception(thrown);
}

// The same on a server of its own, with a client for the agents.
template <class Body>
void with_server_and_agents(Agents agents, Body body) {
  RedisServer server;
  with_board(
      settings_for(server),
      [](Board& board, RedisServer& redis, Agents& crew, Body& inner) -> awaitable<void> {
        co_await with_agents(board, crew, inner, redis);
      },
      server, agents, body);
}

// writer, reviewer (rejects the first version) and publisher: four claims, six artefacts.
inline Agents newsroom() {
  using namespace board;
  Agents agents{{"publisher", "reviewer", "writer"}, {}, {}};
  agents.bid = [](const std::string& role, const Artefact& target) {
    if (target.type == "GoalDefined")
      return role == "writer" ? BidType::exclusive : BidType::ignore;
    if (target.type != "Draft") return BidType::ignore;
    return role == "reviewer"    ? BidType::review
           : role == "publisher" ? BidType::exclusive
                                 : BidType::ignore;
  };
  agents.deliver = [](const std::string& role, const Claim&,
                      const Artefact& target) -> std::optional<Artefact> {
    Artefact made;
    made.type = "Draft";
    if (role == "reviewer") {
      made.type = "Verdict";
      made.structural_type = StructuralType::review;
      made.payload = target.version == 1 ? "too short" : "{}";
    } else if (role == "publisher") {
      made.type = "Published";
      made.structural_type = StructuralType::terminal;
    }
    return made;
  };
  return agents;
}

inline OrchestratorTerms terms_for(const Agents& agents) {
  OrchestratorTerms terms;
  for (const auto& role : agents.roles) terms.roles[role] = {};
  terms.bid_time = 1h;
  return terms;
}

inline Async<> has_artefacts(Board& board, std::string& type, std::size_t& count) {
  board::Listing listing;
  listing.type = type;
  listing.limit = 1000;
  auto page = co_await board.artefacts(listing);
  if (!page) co_return std::unexpected(page.error());
  if (page->items.size() >= count) co_return ok;
  co_return fail(Errc::not_found, "{} of {}", page->items.size(), type);
}

inline Async<> has_ended(Board& board) {
  auto counts = co_await board.counts();
  if (!counts) co_return std::unexpected(counts.error());
  board::Listing listing;
  auto unclaimed = co_await board.unclaimed(listing);
  if (!unclaimed) co_return std::unexpected(unclaimed.error());
  auto again = co_await board.counts();  // the same: it was so all the time
  if (!again) co_return std::unexpected(again.error());
  bool is_still = counts->artefacts == again->artefacts && again->open_claims == 0;
  if (is_still && counts->artefacts > 0 && counts->open_claims == 0 && unclaimed->items.empty())
    co_return ok;
  std::string first;
  for (auto status : board::claim_statuses) {
    auto page = co_await board.claims(status, listing);
    if (page && is_open(status) && !page->items.empty()) first = to_json(page->items[0]);
  }
  co_return fail(Errc::not_found, "{} artefacts, {} open claims, {} unclaimed; {}",
                 counts->artefacts, counts->open_claims, unclaimed->items.size(), first);
}

}  // namespace warren
