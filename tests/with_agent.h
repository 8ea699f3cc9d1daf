#pragma once
// Agents on a real server, beside a test that is their orchestrator.
#include <fstream>

#include "services/board/agent/agent.h"
#include "services/board/agent/contract.h"
#include "with_board.h"

namespace warren::working {

using namespace board;
using agent::result_id;

// A role whose command is this script, run in the folder.
inline AgentTerms role_of(const TempFolder& folder, const std::string& script) {
  AgentTerms terms;
  terms.role.name = "Coder";
  terms.role.command = {"sh", "-c", script};
  terms.role.bidding_strategy = BidType::exclusive;
  terms.workspace = folder.path();
  terms.sweep_every = 1h;  // so that nothing here is owed to it
  return terms;
}

inline const std::string code =
    R"(echo '{"artefact_type":"Code","artefact_payload":"x","summary":"s"}')";

// Writes a line for every run, then its answer.
inline std::string counted(const std::string& answer = code) {
  return "echo run >> runs; " + answer;
}

inline int runs(const TempFolder& folder) {
  std::ifstream file(folder.path() / "runs");
  return static_cast<int>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

// Runs an agent beside the body.
template <class Body, class... Args>
awaitable<void> with_agent(Board& board, AgentTerms terms, Body body, Args&... args) {
  Agent agent(board, std::move(terms));
  TaskGroup tasks(co_await asio::this_coro::executor);
  tasks.start("agent", agent.run());
  std::exception_ptr thrown;
  try {
    co_await eventually(10s, "the agent is ready", [&] { return agent.is_ready(); });
    co_await body(board, agent, args...);
  } catch (...) {
    thrown = std::current_exception();
  }
  tasks.stop();
  co_await tasks.join();
  if (thrown) std::rethrow_exception(thrown);
}

// A server, a board and a folder.
template <class Body>
void on_board(Body body) {
  RedisServer server;
  TempFolder folder;
  with_board(settings_for(server), body, server, folder);
}

inline awaitable<Claim> claimed(Board& board, Artefact artefact) {
  auto created = value_of(co_await board.create_artefact(std::move(artefact)));
  auto made = value_of(co_await board.create_claim(claim_on(created)));
  co_return made.claim;
}

inline awaitable<Claim> goal(Board& board) {
  return claimed(board, artefact_of("GoalDefined", "a page"));
}

inline Claim granted(Claim claim, BidType type) {
  if (type == BidType::review) claim.granted_review_agents = {"Coder"};
  if (type == BidType::claim) claim.granted_parallel_agents = {"Coder"};
  if (type == BidType::exclusive) claim.granted_exclusive_agent = "Coder";
  claim.status = type == BidType::review  ? ClaimStatus::pending_review
                 : type == BidType::claim ? ClaimStatus::pending_parallel
                                          : ClaimStatus::pending_exclusive;
  return claim;
}

inline WriteTerms telling(const Claim& claim, BidType type) {
  WriteTerms terms;
  terms.announcements = {Grant{"Coder", claim.id, type}};
  return terms;
}

inline awaitable<Claim> grant(Board& board, Claim claim, BidType type = BidType::exclusive) {
  auto terms = telling(claim, type);
  co_return value_of(co_await board.update_claim(claim, granted(claim, type), std::move(terms)));
}

inline awaitable<BidType> bid_on(Board& board, Claim claim) {
  auto fact = [](Board& asked, Claim& of) -> Async<BidType> {
    auto bids = value_of(co_await asked.bids(of.id));
    if (!bids.contains("Coder")) co_return fail(Errc::not_found, "there is no bid");
    co_return bids["Coder"];
  };
  co_return co_await eventually(10s, "there is a bid", fact, board, claim);
}

inline awaitable<Artefact> result_of(Board& board, Claim claim) {
  auto id = result_id(claim.id, "Coder");
  auto fact = [](Board& asked, std::string& of) { return asked.artefact(of); };
  co_return co_await eventually(20s, "there is a result", fact, board, id);
}

}  // namespace warren::working
