// A look at one claim: read what is not known, decide, write, until there is nothing to do.
#include <algorithm>

#include "base/log.h"
#include "base/uuid.h"
#include "services/board/orchestrator/orchestrator.h"
#include "services/board/store/causes.h"

namespace warren {

using namespace board;
using namespace orchestrator;

namespace {

// A claim goes through at most four phases; more changes in a row are our mistake, and must not
// keep the others waiting.
constexpr int most_steps = 16;
constexpr auto retry_after = 1s;

}  // namespace

// A claim that is about to be made: no bid on it and no result can be missed, since it is known
// before it is asked for.
void Orchestrator::expect(const Claim& claim, const Part& target) {
  auto& open = open_.add(claim);
  open.facts.target = target;
  open.facts.told_at = Clock::now();
  open.is_known = open.is_looked_at = true;
}

awaitable<void> Orchestrator::claim(Part target) {
  Claim wanted;
  wanted.id = uuid4();
  wanted.artefact_id = target.id;
  expect(wanted, target);
  auto made = co_await board_.create_claim(wanted, writing());
  claiming_.erase(target.id);
  if (made && made->claim.id == wanted.id) {
    ++stats_.claims_created;
    open_.look_at(wanted.id);
    open_.looked(wanted.id);  // by us
  } else {
    open_.remove(wanted.id);
    if (made && is_open(made->claim.status) && !open_.find(made->claim.id)) {
      open_.add(made->claim);
      open_.look_at(made->claim.id);
    }
  }
  --looks_;
  pump();
  if (made || note(made.error(), "claim an artefact", target.id) || !may_retry(made.error()))
    co_return;
  co_await sleep_for(retry_after);
  auto state = co_await asio::this_coro::cancellation_state;
  if (is_cancelled(state)) co_return;
  claim_soon(target);
  pump();
}

awaitable<void> Orchestrator::look(std::string claim_id) {
  auto outcome = Outcome::again;
  for (int step = 0; outcome == Outcome::again; ++step) {
    auto* open = open_.find(claim_id);
    if (!open) break;
    open->is_dirty = false;
    if (step == most_steps) {
      log::error("orchestrator.went_in_circles", "claim", claim_id);
      outcome = Outcome::later;
      break;
    }
    auto known = co_await complete_facts(*open);
    if (!known) {
      outcome = judge(*open, known.error());
      continue;
    }
    if (!open->is_known) continue;  // something was heard meanwhile
    auto decision = decide(open->facts, terms_);
    if (decision.is_nothing() && is_open(open->facts.claim.status)) {
      open_.look_later(claim_id, decision.look_again.value_or(Clock::time_point::max()));
      outcome = Outcome::done;
      continue;
    }
    auto applied = co_await apply(*open, std::move(decision));
    if (!applied) outcome = judge(*open, applied.error());
  }
  if (outcome == Outcome::later) open_.look_later(claim_id, Clock::now() + retry_after);
  open_.looked(claim_id);
  if (open_.next_wake() < next_wake_) time_changed_.notify();
  --looks_;
  pump();
}

// What to do after an error.
Orchestrator::Outcome Orchestrator::judge(OpenClaim& open, const Error& error) {
  auto id = open.facts.claim.id;
  open.is_known = false;
  if (error.code == Errc::held_elsewhere) return Outcome::again;
  if (error.cause == board::causes::missing && error.subject == board_.keys().claim(id)) {
    open_.remove(id);
    return Outcome::done;
  }
  if (note(error, "decide on a claim", id)) return Outcome::done;
  return may_retry(error) ? Outcome::later : Outcome::done;  // done: until the next sweep
}

Async<> Orchestrator::read(OpenClaim& open) {
  auto id = open.facts.claim.id;
  open.is_outdated = false;
  auto claim = co_await board_.claim(id);
  if (!claim) co_return std::unexpected(claim.error());
  open_.retarget(open, claim->artefact_id);
  if (!is_open(claim->status)) {  // nothing else of it matters, or need be readable
    open.facts.claim = *std::move(claim);
    open.is_known = true;
    co_return ok;
  }
  auto bids = co_await board_.bids(id);
  if (!bids) co_return std::unexpected(bids.error());
  auto target = co_await board_.artefact(claim->artefact_id);
  if (!target) co_return std::unexpected(target.error());
  auto children = co_await board_.children(claim->artefact_id, claim->children_before);
  if (!children) co_return std::unexpected(children.error());
  for (const auto& unreadable : children->unreadable)
    log::warn("orchestrator.ignored_artefact", "claim", id, "what", unreadable.what);
  // What the Go program wrote and nobody has indexed yet.
  if (claim->phase_state)
    for (const auto& [role, result] : claim->phase_state->received) {
      if (std::ranges::find(children->items, result, &Artefact::id) != children->items.end())
        continue;
      auto received = co_await board_.artefact(result);
      if (received)
        children->items.push_back(*std::move(received));
      else if (may_retry(received.error()))
        co_return std::unexpected(received.error());
    }
  open.facts.claim = *std::move(claim);
  open.facts.target = part_of(*target);
  open.facts.bids = *std::move(bids);
  open.facts.children.clear();
  for (const auto& child : children->items) open.facts.children.push_back(part_of(child));
  open.is_known = !open.is_outdated;
  open_.note(open.facts.claim);
  co_return ok;
}

Async<> Orchestrator::complete_facts(OpenClaim& open) {
  if (!open.is_known) {
    auto done = co_await read(open);
    if (!done || !is_open(open.facts.claim.status)) co_return done;
  }
  auto& facts = open.facts;
  facts.workflow.reset();
  const auto& limits = terms_.limits;
  if (limits.depth > 0 || limits.artefacts > 0 || limits.time > 0ms || !cancelled_.empty()) {
    auto standing = co_await workflows_.standing(facts.claim.artefact_id);
    if (!standing) co_return std::unexpected(standing.error());
    facts.workflow = *std::move(standing);
    auto cancelled = cancelled_.find(facts.workflow->goal);
    facts.workflow->is_cancelled = cancelled != cancelled_.end();
    if (facts.workflow->is_cancelled) facts.workflow->cancel_reason = cancelled->second;
  }
  facts.now = Clock::now();
  facts.stamp = std::chrono::floor<std::chrono::milliseconds>(WallClock::now());
  facts.is_paused = is_paused_;
  facts.busy = open_.slots().busy(facts.claim.id);
  co_return ok;
}

// The slots are taken before the write leaves: from then on nobody else gets them.
Async<> Orchestrator::apply(OpenClaim& open, Decision decision) {
  auto& facts = open.facts;
  if (!is_open(facts.claim.status)) {
    auto id = facts.claim.id;
    open_.remove(id);
    co_return ok;
  }
  if (decision.failure) {
    auto created = co_await board_.create_artefact(*decision.failure, writing());
    if (!created) co_return std::unexpected(created.error());
  }
  if (!decision.changed) {
    for (auto& announcement : decision.announcements) {
      auto told = co_await board_.announce(std::move(announcement));
      if (!told) co_return told;
    }
  } else if (decision.feedback) {
    co_return co_await replace(open, std::move(decision));
  } else {
    auto terms = writing();
    terms.announcements = decision.announcements;
    open_.note(*decision.changed);
    auto updated = co_await board_.update_claim(facts.claim, *decision.changed, std::move(terms));
    if (!updated) co_return std::unexpected(updated.error());
    count(decision);
    facts.claim = *std::move(updated);
  }
  if (decision.tells_agents) facts.told_at = Clock::now();
  if (is_open(facts.claim.status)) co_return ok;
  auto id = facts.claim.id;
  open_.remove(id);
  co_return ok;
}

Async<> Orchestrator::replace(OpenClaim& open, Decision decision) {
  auto feedback = *decision.feedback;
  feedback.id = uuid4();
  auto terms = writing();
  terms.announcements = decision.announcements;
  terms.announcements.emplace_back(
      feedback_claim_created(feedback, open.facts.claim.id, open.facts.target.version));
  expect(feedback, open.facts.target);
  auto id = open.facts.claim.id;
  auto replaced = co_await board_.replace_claim(open.facts.claim, *decision.changed, feedback,
                                                std::move(terms));
  if (!replaced) {
    open_.remove(feedback.id);
    if (replaced.error().code != Errc::held_elsewhere)
      sweep_soon();  // should it be there all the same
    co_return std::unexpected(replaced.error());
  }
  count(decision);
  open_.look_at(feedback.id);
  open_.looked(feedback.id);
  open_.remove(id);
  co_return ok;
}

void Orchestrator::count(const Decision& decision) {
  const auto& claim = *decision.changed;
  if (decision.feedback) ++stats_.feedback_claims;
  if (claim.status == ClaimStatus::complete) ++stats_.claims_completed;
  if (claim.status == ClaimStatus::terminated) ++stats_.claims_terminated;
  if (is_open(claim.status) && claim.grant_queue) ++stats_.claims_queued;
  for (const auto& announcement : decision.announcements)
    if (std::holds_alternative<Grant>(announcement)) ++stats_.grants;
  if (claim.status == ClaimStatus::terminated)
    log::info("orchestrator.terminated_claim", "claim", claim.id, "why", claim.termination_reason);
}

}  // namespace warren
