#include "services/board/orchestrator/control.h"

#include <algorithm>
#include <deque>
#include <unordered_set>

#include "base/uuid.h"
#include "services/board/orchestrator/decide.h"
#include "services/board/orchestrator/workflows.h"
#include "services/board/store/json_parts.h"

namespace warren::orchestrator {

using namespace board;
using redis::Command;

namespace {

// Somebody may change a claim between our looking and our writing, so often at most.
constexpr int most_attempts = 10;

redis::CallOptions once_more(const Board& board) {
  return redis::CallOptions().idempotent().where(board.keys().root());
}

bool is_answer(const Artefact& artefact) {
  return artefact.structural_type == StructuralType::answer;
}

// Of the targets of these claims, the questions.
Async<> add_questions(Board board, std::vector<Claim> claims, std::vector<Artefact>& questions) {
  std::vector<Command> commands;
  for (const auto& claim : claims)
    commands.emplace_back("HGET", board.keys().artefact(claim.artefact_id), "structural_type");
  auto types = co_await board.client().batch(std::move(commands), once_more(board));
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!types[i] || types[i]->text != name(StructuralType::question)) continue;
    auto question = co_await board.artefact(claims[i].artefact_id);
    if (question) questions.push_back(*std::move(question));
  }
  co_return ok;
}

Async<std::vector<Artefact>> claimed_questions(Board board) {
  std::vector<Artefact> found;
  for (auto status : claim_statuses) {
    if (!is_open(status)) continue;
    Listing listing;
    listing.limit = 1000;
    do {
      auto page = co_await board.claims(status, listing);
      if (!page) co_return std::unexpected(page.error());
      auto added = co_await add_questions(board, std::move(page->items), found);
      if (!added) co_return std::unexpected(added.error());
      listing.after = page->next;
    } while (listing.after);
  }
  co_return found;
}

// False when it was over.
Async<bool> end(Board board, std::string claim_id, std::string reason) {
  for (int attempt = 0;; ++attempt) {
    auto read = co_await board.claim(claim_id);
    if (!read) co_return std::unexpected(read.error());
    if (!is_open(read->status)) co_return false;
    auto ended = *read;
    ended.status = ClaimStatus::terminated;
    ended.termination_reason = reason;
    ended.artefact_expected = false;
    ended.grant_queue.reset();
    WriteTerms terms;
    terms.announcements.emplace_back(claim_event("claim_terminated", ended, reason));
    auto updated = co_await board.update_claim(*read, ended, std::move(terms));
    if (updated) co_return true;
    if (updated.error().code != Errc::held_elsewhere || attempt == most_attempts)
      co_return std::unexpected(updated.error());
  }
}

Async<std::size_t> end_all_from(Board board, std::string goal, std::string reason) {
  std::size_t ended = 0;
  std::deque<std::string> below{goal};
  std::unordered_set<std::string> seen{goal};
  while (!below.empty()) {
    auto id = std::move(below.front());
    below.pop_front();
    auto claim = co_await board.claim_on(id);
    if (claim) {
      auto was_open = co_await end(board, claim->id, reason);
      if (!was_open) co_return std::unexpected(was_open.error());
      ended += *was_open ? 1 : 0;
    }
    auto children = co_await board.children(id);
    if (!children) co_return std::unexpected(children.error());
    for (auto& child : children->items)
      if (seen.insert(child.id).second) below.push_back(std::move(child.id));
  }
  co_return ended;
}

Async<std::size_t> cancel_goal(Board board, Artefact goal, std::string reason) {
  if (!goal.source_artefacts.empty())
    co_return fail(Errc::invalid, "artefact {} is no goal: give the id of its goal or of a claim",
                   goal.id);
  // The reason first: whoever finds the mark, and ends a claim before we do, gives it.
  Command explain("HSET", board.keys().cancel_reasons(), goal.id, reason);
  auto explained = co_await board.client().ask(std::move(explain), once_more(board));
  if (!explained) co_return std::unexpected(explained.error());
  Command mark("SADD", board.keys().cancelled(), goal.id);
  auto marked = co_await board.client().ask(std::move(mark), once_more(board));
  if (!marked) co_return std::unexpected(marked.error());
  WorkflowEvent cancelled{"goal_cancelled", {}};
  cancelled.data["goal_id"] = goal.id;
  cancelled.data["reason"] = parts::text_value(reason);
  auto told = co_await board.announce(std::move(cancelled));
  if (!told) co_return std::unexpected(told.error());
  co_return co_await end_all_from(board, goal.id, std::move(reason));
}

}  // namespace

Async<std::vector<Artefact>> questions(Board board) {
  auto found = co_await claimed_questions(board);
  if (!found) co_return std::unexpected(found.error());
  Listing listing;
  listing.limit = 1000;
  auto unclaimed = co_await board.unclaimed(listing);
  if (!unclaimed) co_return std::unexpected(unclaimed.error());
  std::ranges::move(unclaimed->items, std::back_inserter(*found));
  std::erase_if(*found, [](const Artefact& artefact) {
    return artefact.structural_type != StructuralType::question;
  });
  std::vector<Artefact> open;
  for (auto& question : *found) {
    auto children = co_await board.children(question.id);
    if (!children) co_return std::unexpected(children.error());
    if (std::ranges::none_of(children->items, is_answer)) open.push_back(std::move(question));
  }
  std::ranges::sort(open, {}, [](const Artefact& a) { return std::pair(a.created_at, a.id); });
  co_return open;
}

Async<Artefact> answer(Board board, std::string question_id, std::string text) {
  auto question = co_await board.artefact(question_id);
  if (!question) co_return std::unexpected(question.error());
  if (question->structural_type != StructuralType::question)
    co_return fail(Errc::invalid, "artefact {} is a {}, not a Question", question_id,
                   name(question->structural_type));
  auto children = co_await board.children(question_id);
  if (!children) co_return std::unexpected(children.error());
  auto given = std::ranges::find_if(children->items, is_answer);
  if (given != children->items.end())
    co_return fail(Errc::refused, "artefact {} answered it", given->id);
  Artefact made;
  made.id = uuid4();
  made.structural_type = StructuralType::answer;
  made.type = "Answer";
  made.payload = std::move(text);
  made.source_artefacts = {question_id};
  made.produced_by_role = "user";
  co_return co_await board.create_artefact(std::move(made));
}

Async<std::size_t> cancel(Board board, std::string id, std::string reason) {
  auto claim = co_await board.claim(id);
  if (!claim && claim.error().code != Errc::not_found) co_return std::unexpected(claim.error());
  if (claim) {
    auto ended = co_await end(board, id, std::move(reason));
    if (!ended) co_return std::unexpected(ended.error());
    if (!*ended) co_return fail(Errc::refused, "claim {} is {} already", id, name(claim->status));
    co_return 1;
  }
  auto goal = co_await board.artefact(id);
  if (!goal && goal.error().code == Errc::not_found)
    co_return fail(Errc::not_found, "there is no claim and no goal {}", id);
  if (!goal) co_return std::unexpected(goal.error());
  co_return co_await cancel_goal(board, *std::move(goal), std::move(reason));
}

Async<Claim> retry(Board board, std::string claim_id) {
  auto read = co_await board.claim(claim_id);
  if (!read) co_return std::unexpected(read.error());
  if (is_untaken(*read))
    co_return fail(Errc::refused,
                   "claim {} is open, and waits for an agent that wants it: it is taken up when "
                   "one comes",
                   claim_id);
  if (read->status != ClaimStatus::terminated && !was_left_alone(*read))
    co_return fail(Errc::refused, "claim {} is {}, not terminated", claim_id, name(read->status));
  auto newest = co_await board.claim_on(read->artefact_id);
  if (newest && is_open(newest->status))
    co_return fail(Errc::refused, "claim {} on the same artefact is open", newest->id);
  if (newest && newest->id != claim_id)
    co_return fail(Errc::refused, "claim {} on the same artefact came after it", newest->id);
  auto goal = co_await goal_of(board, read->artefact_id);
  if (!goal) co_return std::unexpected(goal.error());
  Command unmark("SREM", board.keys().cancelled(), *goal);
  auto unmarked = co_await board.client().ask(std::move(unmark), once_more(board));
  if (!unmarked) co_return std::unexpected(unmarked.error());
  Command forget("HDEL", board.keys().cancel_reasons(), *goal);
  auto forgotten = co_await board.client().ask(std::move(forget), once_more(board));
  if (!forgotten) co_return std::unexpected(forgotten.error());
  auto children = co_await board.children(read->artefact_id);
  if (!children) co_return std::unexpected(children.error());

  Claim next;
  next.id = uuid4();
  next.artefact_id = read->artefact_id;
  next.children_before = children->last_place;
  next.additional_context_ids = read->additional_context_ids;
  if (!next.additional_context_ids.empty()) next.status = ClaimStatus::pending_assignment;
  auto retried = claim_event("claim_retried", next, read->termination_reason);
  retried.data["goal_id"] = *goal;
  retried.data["retried_claim_id"] = claim_id;
  WriteTerms terms;
  terms.announcements.emplace_back(std::move(retried));
  co_return co_await board.replace_claim(*read, *read, next, std::move(terms));
}

Async<std::size_t> count_untaken(Board board) {
  std::size_t count = 0;
  Listing listing;
  listing.limit = 1000;
  do {
    auto page = co_await board.claims(ClaimStatus::pending_review, listing);
    if (!page) co_return std::unexpected(page.error());
    count += static_cast<std::size_t>(std::ranges::count_if(page->items, is_untaken));
    listing.after = page->next;
  } while (listing.after);
  co_return count;
}

Async<> pause(Board board, std::string reason) {
  auto now = std::chrono::floor<std::chrono::milliseconds>(WallClock::now());
  auto value = fmt::format("{} {}", parts::milliseconds(now), reason);
  Command set("SET", board.keys().paused(), value);
  auto done = co_await board.client().ask(std::move(set), once_more(board));
  if (!done) co_return std::unexpected(done.error());
  WorkflowEvent event{"orchestrator_paused", {}};
  event.data["reason"] = parts::text_value(reason);
  co_return co_await board.announce(std::move(event));
}

Async<> resume(Board board) {
  Command unset("DEL", board.keys().paused());
  auto done = co_await board.client().ask(std::move(unset), once_more(board));
  if (!done) co_return std::unexpected(done.error());
  WorkflowEvent event{"orchestrator_resumed", {}};
  co_return co_await board.announce(std::move(event));
}

Pause parse_pause(std::string_view text) {
  Pause pause;
  auto space = text.find(' ');
  pause.since = parts::unix_time(std::strtoll(std::string(text).c_str(), nullptr, 10));
  if (space != text.npos) pause.reason = text.substr(space + 1);
  return pause;
}

Async<std::optional<Pause>> paused(Board board) {
  Command get("GET", board.keys().paused());
  auto value = co_await board.client().ask(std::move(get), once_more(board));
  if (!value) co_return std::unexpected(value.error());
  if (value->is_null()) co_return std::nullopt;
  co_return parse_pause(value->text);
}

}  // namespace warren::orchestrator
