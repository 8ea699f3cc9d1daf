// Claims, the bids for them, and those that wait for a worker.
#include <algorithm>

#include "base/uuid.h"
#include "services/board/store/board.h"
#include "services/board/store/causes.h"
#include "services/board/store/json_parts.h"
#include "services/board/store/writing.h"

namespace warren {

using namespace board;
using redis::Command;

namespace {

const auto create_claim_script = writing(scripts::create_claim);
const auto update_claim_script = writing(scripts::update_claim);
const auto set_bid_script = writing(scripts::set_bid);

// What was wrong when it was read is let pass: somebody must be able to end such a claim.
Result<> check_change(const Claim& read, const Claim& changed) {
  if (read.id != changed.id || read.artefact_id != changed.artefact_id)
    return fail(Errc::invalid, "a claim keeps its id and its artefact");
  auto checked = check(changed);
  if (checked) return ok;
  auto before = check(read);
  bool was_so = !before && before.error().subject == checked.error().subject;
  return was_so ? ok : checked;
}

Fields changed_fields(const Claim& read, const Claim& changed) {
  auto before = to_fields(read), after = to_fields(changed), different = after;
  std::erase_if(different, [&before](const auto& field) {
    return std::ranges::find(before, field) != before.end();
  });
  for (const auto& [name, value] : before)
    if (std::ranges::find(after, name, &Fields::value_type::first) == after.end())
      different.emplace_back(name, "");
  return different;
}

void append_successor(const BoardKeys& board, const Claim& read,
                      const std::optional<Claim>& successor, Words& keys, Words& args) {
  keys.push_back(successor ? board.claim(successor->id) : board.nothing());
  keys.push_back(board.claim_by_artefact(read.artefact_id));
  keys.push_back(board.claims(successor ? successor->status : ClaimStatus::pending_assignment));
  keys.push_back(board.claim_ids());
  args.push_back(successor ? successor->id : "");
  args.push_back(board.claim_events());
  args.push_back(successor ? to_json(*successor) : "");
}

}  // namespace

Async<std::optional<std::string>> Board::place(const Claim& claim, std::string replaces,
                                               WriteTerms terms) const {
  Words keys{keys_.claim(claim.id), keys_.claim_by_artefact(claim.artefact_id),
             keys_.claims(claim.status), keys_.claim_ids(), keys_.unclaimed()};
  Words args{claim.id, claim.artefact_id, std::move(replaces), keys_.claim_events(),
             to_json(claim)};
  append(args, to_fields(claim));
  auto reply =
      co_await write(create_claim_script, std::move(keys), std::move(args), std::move(terms));
  if (!reply) co_return std::unexpected(reply.error());
  if (code_of(*reply) == 1) co_return std::nullopt;
  co_return text_of(*reply, 1);
}

Async<ClaimCreation> Board::create_claim(Claim claim, WriteTerms terms) {
  if (claim.id.empty()) claim.id = uuid4();
  claim.revision.clear();
  if (auto checked = check(claim); !checked) co_return std::unexpected(checked.error());
  std::string replaces = claim.status == ClaimStatus::pending_assignment ? "*" : "";
  for (bool again : {false, true}) {
    auto before = co_await place(claim, replaces, terms);
    if (!before) co_return std::unexpected(before.error());
    if (!*before) co_return ClaimCreation{std::move(claim), true};
    auto existing = co_await this->claim(**before);
    if (existing) co_return ClaimCreation{*std::move(existing), false};
    if (existing.error().code != Errc::not_found || again)
      co_return std::unexpected(existing.error());
    replaces = **before;  // somebody deleted that claim, but not its place in the index
  }
  std::unreachable();
}

Async<Claim> Board::claim(std::string id) const {
  auto key = keys_.claim(id);
  auto reply = co_await read(Command("HGETALL", key));
  co_return read_hash<Claim>(key, reply, claim_from);
}

Async<Claim> Board::claim_on(std::string artefact_id) const {
  auto key = keys_.claim_by_artefact(artefact_id);
  auto reply = co_await read(Command("GET", key));
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->is_null())
    co_return fail(Errc::not_found, board::causes::missing, key, "there is no {}", key);
  co_return co_await claim(reply->text);
}

Async<Claim> Board::update_claim(Claim read, Claim changed, WriteTerms terms) {
  return change(std::move(read), std::move(changed), {}, std::move(terms));
}

Async<Claim> Board::replace_claim(Claim read, Claim changed, Claim feedback, WriteTerms terms) {
  if (feedback.id.empty()) feedback.id = uuid4();
  feedback.revision.clear();
  if (auto checked = check(feedback); !checked) co_return std::unexpected(checked.error());
  if (feedback.artefact_id != read.artefact_id || feedback.id == read.id)
    co_return fail(Errc::invalid, "a feedback claim is another claim on the same artefact");
  std::optional<Claim> successor = feedback;
  auto changed_then =
      co_await change(std::move(read), std::move(changed), std::move(successor), std::move(terms));
  if (!changed_then) co_return std::unexpected(changed_then.error());
  co_return feedback;
}

Async<Claim> Board::change(Claim read, Claim changed, std::optional<Claim> successor,
                           WriteTerms terms) const {
  if (auto checked = check_change(read, changed); !checked)
    co_return std::unexpected(checked.error());
  changed.revision = uuid4();

  Words keys{keys_.claim(read.id), keys_.claims(read.status), keys_.claims(changed.status)};
  Words args{read.id, std::string(name(read.status)), read.revision, changed.revision};
  bool moves = read.grant_queue != changed.grant_queue;
  bool leaves = moves && read.grant_queue, enters = moves && changed.grant_queue;
  keys.push_back(leaves ? keys_.grant_queue(read.grant_queue->agent_name) : keys_.nothing());
  keys.push_back(enters ? keys_.grant_queue(changed.grant_queue->agent_name) : keys_.nothing());
  args.emplace_back(leaves ? "1" : "0");
  args.push_back(enters ? std::to_string(parts::milliseconds(changed.grant_queue->paused_at)) : "");
  append_successor(keys_, read, successor, keys, args);

  auto fields = changed_fields(read, changed);
  args.push_back(std::to_string(2 * fields.size()));
  append(args, fields);
  if (successor) append(args, to_fields(*successor));
  auto reply =
      co_await write(update_claim_script, std::move(keys), std::move(args), std::move(terms));
  if (!reply) co_return std::unexpected(reply.error());
  if (code_of(*reply) == -1)
    co_return fail(Errc::not_found, board::causes::missing, keys_.claim(read.id),
                   "there is no claim {}", read.id);
  if (code_of(*reply) == -2)
    co_return fail(Errc::held_elsewhere, "claim {} was changed since it was read; it is {} now",
                   read.id, text_of(*reply, 1));
  co_return changed;
}

Async<> Board::set_bid(std::string claim_id, std::string role, BidType bid) {
  if (auto checked = check_id("claim_id", claim_id); !checked) co_return checked;
  if (auto checked = check_role(role); !checked) co_return checked;
  WriteTerms terms;
  terms.announcements.emplace_back(bid_submitted(role, bid, claim_id));
  Words keys{keys_.bids(claim_id)};
  Words args{role, std::string(name(bid))};
  auto reply = co_await write(set_bid_script, std::move(keys), std::move(args), std::move(terms));
  if (!reply) co_return std::unexpected(reply.error());
  co_return ok;
}

Async<Bids> Board::bids(std::string claim_id) const {
  auto reply = co_await read(Command("HGETALL", keys_.bids(claim_id)));
  if (!reply) co_return std::unexpected(reply.error());
  co_return bids_from(*reply);
}

}  // namespace warren
