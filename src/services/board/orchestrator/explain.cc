// "Why is my claim stuck?"
#include <algorithm>

#include "base/clock.h"
#include "base/printable.h"
#include "services/board/orchestrator/control.h"
#include "services/board/orchestrator/decide.h"
#include "services/board/store/json_parts.h"

namespace warren::orchestrator {

using namespace board;
using redis::Command;

namespace {

// The time of the claim's creation, and its place in its queue: two questions at once.
Async<> look_up(Board board, Explanation& found) {
  const auto& claim = found.claim;
  const auto& keys = board.keys();
  std::vector<Command> commands;
  commands.emplace_back("ZSCORE", keys.claims(claim.status), claim.id);
  if (claim.grant_queue)
    commands.emplace_back("ZRANK", keys.grant_queue(claim.grant_queue->agent_name), claim.id);
  auto options = redis::CallOptions().idempotent().where(keys.root());
  auto replies = co_await board.client().batch(std::move(commands), options);
  for (auto& reply : replies)
    if (!reply) co_return std::unexpected(reply.error());
  const auto& score = *replies[0];
  if (!score.is_null())
    found.claimed_at = parts::unix_time(static_cast<std::int64_t>(
        score.kind == redis::Reply::Kind::real ? score.real() : std::atof(score.text.c_str())));
  if (claim.grant_queue && !replies[1]->is_null())
    found.queue_position = static_cast<std::size_t>(replies[1]->number);
  co_return ok;
}

Words awaited(const Claim& claim, const Bids& bids, const std::vector<Artefact>& children) {
  Words granted;
  if (auto phase = phase_of(claim, bids))
    granted = phase->granted_agents;
  else if (!claim.granted_exclusive_agent.empty())
    granted = {claim.granted_exclusive_agent};
  std::erase_if(granted, [&](const std::string& role) {
    return std::ranges::find(children, role, &Artefact::produced_by_role) != children.end();
  });
  return granted;
}

// For people: whatever roles, types and reasons say, a line is one.
class Text {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += printable(fmt::format(format, std::forward<Args>(args)...)) + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void explain_bids(const Explanation& e, bool has_terms, Text& text) {
  if (is_untaken(e.claim))
    text.line("nobody has taken it since {}: it stays, and is taken up when an agent bids for it",
              iso8601(e.claim.untaken_since));
  Words given;
  for (const auto& [role, bid] : e.bids) given.push_back(fmt::format("{} ({})", role, name(bid)));
  text.line("bids: {}", given.empty() ? "none" : fmt::format("{}", fmt::join(given, ", ")));
  if (!e.missing_bids.empty())
    text.line("waits for the bids of: {}", fmt::join(e.missing_bids, ", "));
  if (!has_terms) text.line("waits for the bids of those who are not among these");
  bool is_question = e.target.structural_type == StructuralType::question;
  if (has_terms && e.missing_bids.empty() && !e.pause && !is_question && !is_untaken(e.claim))
    text.line("all bids are there: an orchestrator that runs goes on with it");
}

void explain_open(const Explanation& e, bool has_terms, Text& text) {
  const auto& claim = e.claim;
  if (e.pause)
    text.line("nothing is granted: paused since {}{}{}", iso8601(e.pause->since),
              e.pause->reason.empty() ? "" : ", ", e.pause->reason);
  if (e.target.structural_type == StructuralType::question)
    text.line("it is a question, and ends with its answer");
  if (claim.grant_queue) {
    text.line("in the queue of {} since {}{}", claim.grant_queue->agent_name,
              iso8601(claim.grant_queue->paused_at),
              e.queue_position ? fmt::format(", {} before it", *e.queue_position) : "");
  } else if (!e.awaited.empty()) {
    auto since =
        claim.phase_state ? claim.phase_state->start_time : UnixTime(claim.last_grant_time);
    text.line("granted{}, waits for: {}", since == UnixTime{} ? "" : " at " + iso8601(since),
              fmt::join(e.awaited, ", "));
  } else if (claim.status == ClaimStatus::pending_assignment || claim.phase_state) {
    text.line("waits for nobody: an orchestrator that runs goes on with it");
  } else {
    explain_bids(e, has_terms, text);
  }
}

std::string text_of(const Explanation& e, bool has_terms) {
  const auto& claim = e.claim;
  Text text;
  text.line("claim {} on {} {} (version {}, by {})", claim.id, e.target.type, e.target.id,
            e.target.version, e.target.produced_by_role);
  text.line("status: {}{}", name(claim.status),
            e.claimed_at ? ", claimed at " + iso8601(*e.claimed_at) : "");
  if (e.iteration > 0) text.line("reworked {} times", e.iteration);
  if (claim.status == ClaimStatus::terminated)
    text.line("ended: {}",
              claim.termination_reason.empty() ? "nobody wrote why" : claim.termination_reason);
  else if (was_left_alone(claim) && e.target.source_artefacts.empty())
    text.line("ended: nobody bid for it, and so nothing was done");
  else if (was_left_alone(claim))
    text.line("ended: nobody had more to do with it");
  else if (claim.status == ClaimStatus::complete)
    text.line("ended: all that was asked for is done");
  else
    explain_open(e, has_terms, text);
  return text.take();
}

}  // namespace

Async<Explanation> explain(Board board, std::string claim_id,
                           std::optional<OrchestratorTerms> terms) {
  Explanation found;
  auto claim = co_await board.claim(claim_id);
  if (!claim) co_return std::unexpected(claim.error());
  found.claim = *std::move(claim);
  auto target = co_await board.artefact(found.claim.artefact_id);
  if (!target) co_return std::unexpected(target.error());
  found.target = *std::move(target);
  found.iteration = found.target.version - 1;
  auto bids = co_await board.bids(claim_id);
  if (!bids) co_return std::unexpected(bids.error());
  found.bids = *std::move(bids);
  auto children = co_await board.children(found.target.id, found.claim.children_before);
  if (!children) co_return std::unexpected(children.error());
  auto pause = co_await paused(board);
  if (!pause) co_return std::unexpected(pause.error());
  found.pause = *std::move(pause);
  auto looked_up = co_await look_up(board, found);
  if (!looked_up) co_return std::unexpected(looked_up.error());

  if (is_open(found.claim.status)) {
    found.awaited = awaited(found.claim, found.bids, children->items);
    bool is_bidding =
        found.claim.status == ClaimStatus::pending_review && !phase_of(found.claim, found.bids);
    if (terms && is_bidding)
      found.missing_bids = consensus(found.bids, part_of(found.target), *terms).missing;
  }
  found.text = text_of(found, terms.has_value());
  co_return found;
}

}  // namespace warren::orchestrator
