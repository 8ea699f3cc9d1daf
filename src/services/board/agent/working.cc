// How an agent works off what it was granted.
#include <algorithm>

#include "services/board/agent/agent.h"
#include "services/board/agent/context.h"
#include "services/board/agent/contract.h"
#include "services/board/agent/insist.h"
#include "services/board/agent/job.h"
#include "services/board/orchestrator/control.h"

namespace warren {

using namespace board;
using namespace asio::experimental::awaitable_operators;
using agent::insist;

std::optional<BidType> agent::granted_as(const Claim& claim, std::string_view role) {
  auto has = [&](const Words& roles) { return std::ranges::find(roles, role) != roles.end(); };
  switch (claim.status) {
    case ClaimStatus::pending_review:
      if (has(claim.granted_review_agents)) return BidType::review;
      return {};
    case ClaimStatus::pending_parallel:
      if (has(claim.granted_parallel_agents)) return BidType::claim;
      return {};
    case ClaimStatus::pending_exclusive:
    case ClaimStatus::pending_assignment:
      if (claim.granted_exclusive_agent == role) return BidType::exclusive;
      return {};
    case ClaimStatus::complete:
    case ClaimStatus::terminated:
      return {};
  }
  std::abort();
}

awaitable<void> Agent::perform(std::string claim_id) {
  // When we are cancelled, tools and trees are put away first.
  co_await asio::this_coro::throw_if_cancelled(false);
  auto read = [&] { return board_.claim(claim_id); };
  auto claim = co_await insist(read);
  auto type = claim ? agent::granted_as(*claim, role_.name) : std::nullopt;
  Result<bool> done = false;
  if (type)
    done = co_await perform_granted(*std::move(claim), *type);
  else if (!claim)
    done = std::unexpected(claim.error());
  if (!done && done.error().code != Errc::cancelled)
    log::warn("agent.work_failed", "role", role_.name, "claim", claim_id, "why", done.error().what);
  running_.erase(claim_id);
  // What was not done may be granted again.
  if (!done || !*done) taken_.erase(claim_id);
  pump();
}

Async<bool> Agent::has_result(const Claim& claim) {
  if (claim.phase_state && claim.phase_state->received.contains(role_.name)) co_return true;
  auto read = [&] { return board_.artefact(agent::result_id(claim.id, role_.name)); };
  auto result = co_await insist(read);
  if (result) co_return true;
  if (result.error().code == Errc::not_found) co_return false;
  co_return std::unexpected(result.error());
}

Async<bool> Agent::perform_granted(Claim claim, BidType type) {
  auto has = co_await has_result(claim);
  if (!has || *has) co_return has;
  log::info("agent.began", "role", role_.name, "claim", claim.id, "as", name(type));
  auto result = co_await produce_while_granted(claim, type);
  if (!result) co_return std::unexpected(result.error());
  auto delivered = co_await deliver(claim, type, *std::move(result));
  co_return delivered;
}

// To run the tool again may cost a lot, so what it made is kept for as long as anybody wants it,
// whatever the server says.
Async<bool> Agent::deliver(const Claim& claim, BidType type, Artefact result) {
  for (Clock::duration pause = 100ms;; pause = std::min<Clock::duration>(pause * 2, 5s)) {
    auto delivered = co_await deliver_once(claim, type, result);
    auto state = co_await asio::this_coro::cancellation_state;
    if (delivered || is_cancelled(state)) co_return delivered;
    auto level = may_retry(delivered.error()) ? log::Level::warn : log::Level::error;
    log::event(level, "agent.result_kept", "role", role_.name, "claim", claim.id, "why",
               delivered.error().what);
    co_await sleep_for(pause);
  }
}

Async<bool> Agent::deliver_once(const Claim& claim, BidType type, const Artefact& result) {
  // Meanwhile somebody may have ended the claim, or granted it anew.
  auto now = co_await board_.claim(claim.id);
  bool is_gone = !now && now.error().code == Errc::not_found;
  if (!now && !is_gone) co_return std::unexpected(now.error());
  if (is_gone || agent::granted_as(*now, role_.name) != type) {
    log::info("agent.result_dropped", "role", role_.name, "claim", claim.id, "status",
              is_gone ? "deleted" : name(now->status));
    co_return false;
  }
  auto written = co_await write(claim, result);
  if (!written && !may_retry(written.error())) written = co_await give_up(claim, written.error());
  if (!written) co_return std::unexpected(written.error());
  co_return true;
}

// It can never be written, so that is told in its place: by a Failure, or where that cannot be
// written either, by the end of the claim. A user may try both again.
Async<> Agent::give_up(const Claim& claim, const Error& why) {
  auto reason = fmt::format("what {} made could not be written: {}", role_.name, why.what);
  auto failure = agent::failure_of(role_, claim, reason);
  auto told = co_await write(claim, std::move(failure));
  if (!told && !may_retry(told.error())) {
    auto ended = co_await orchestrator::cancel(board_, claim.id, reason);
    if (ended)
      told = ok;
    else
      told = std::unexpected(ended.error());
  }
  if (told) log::error("agent.result_lost", "role", role_.name, "claim", claim.id, "why", why.what);
  co_return told;
}

Async<Artefact> Agent::produce_while_granted(const Claim& claim, BidType type) {
  auto first = co_await (produce_to_the_end(claim, type) || until_taken_back(claim.id, type));
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  auto state = co_await asio::this_coro::cancellation_state;
  if (!is_cancelled(state)) log::info("agent.taken_back", "role", role_.name, "claim", claim.id);
  co_return fail(Errc::cancelled, "the grant was taken back");
}

// As in perform(): this has a state of cancellation of its own.
Async<Artefact> Agent::produce_to_the_end(const Claim& claim, BidType type) {
  co_await asio::this_coro::throw_if_cancelled(false);
  auto result = co_await produce(claim, type);
  co_return result;
}

// A person may end a claim, or a limit of its workflow: what is made for it is of no use then, and
// the role has other work to do. Of a server that does not answer nothing follows.
awaitable<void> Agent::until_taken_back(std::string claim_id, BidType type) {
  for (;;) {
    co_await sleep_for(terms_.look_every);
    auto claim = co_await board_.claim(claim_id);
    bool is_gone = !claim && claim.error().code == Errc::not_found;
    if (is_gone || (claim && agent::granted_as(*claim, role_.name) != type)) co_return;
  }
}

Async<Artefact> Agent::produce(const Claim& claim, BidType type) {
  auto is_hopeless = [](Errc code) {
    return code == Errc::not_found || code == Errc::protocol || code == Errc::refused;
  };
  auto read = [&] { return board_.artefact(claim.artefact_id); };
  auto target = co_await insist(read);
  if (!target && is_hopeless(target.error().code))
    co_return agent::failure_of(role_, claim, target.error().what);
  if (!target) co_return std::unexpected(target.error());
  auto assemble = [&] {
    return agent::assemble_context(board_, *target, claim.additional_context_ids);
  };
  auto context = co_await insist(assemble);
  if (!context && is_hopeless(context.error().code))
    co_return agent::failure_of(role_, claim, context.error().what);
  if (!context) co_return std::unexpected(context.error());
  agent::Job job{role_, terms_.workspace, claim, type, *std::move(target), *std::move(context)};
  auto result = co_await agent::work_off(job);
  co_return result;
}

Async<> Agent::write(const Claim& claim, Artefact result) {
  bool is_rework = result.logical_id != "" && result.structural_type != StructuralType::failure;
  auto create = [&] {
    return is_rework ? board_.create_next_version(result) : board_.create_artefact(result);
  };
  auto created = co_await create();
  if (!created && created.error().code == Errc::refused) {
    auto is_there = co_await has_result(claim);
    if (!is_there) co_return std::unexpected(is_there.error());
    if (*is_there) {
      log::info("agent.was_second", "role", role_.name, "claim", claim.id);
      co_return ok;
    }
  }
  if (!created) co_return std::unexpected(created.error());
  bool has_failed = created->structural_type == StructuralType::failure;
  ++(has_failed ? stats_.failures : stats_.results);
  log::info("agent.ended", "role", role_.name, "claim", claim.id, "artefact", created->id, "type",
            created->type);
  if (!is_rework) co_return ok;
  auto event = artefact_reworked(*created, claim.artefact_id);
  auto told = co_await board_.announce(std::move(event));
  if (!told) log::warn("agent.rework_not_told", "artefact", created->id, "why", told.error().what);
  co_return ok;
}

}  // namespace warren
