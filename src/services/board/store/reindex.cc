// Makes the indexes of a board true, from its data.
//
// An artefact never changes, so putting one into an index needs no script. The status of a claim
// does, so each claim is looked at and put in its place in one step.
#include <algorithm>

#include "services/board/store/board.h"
#include "services/board/store/json_parts.h"
#include "services/board/store/scripts.h"

namespace warren {

using namespace board;
using redis::Command;
using redis::Reply;

namespace {

constexpr std::size_t at_once = 500;
constexpr std::size_t most_reported = 100;

redis::CallOptions repairing(const Board& board) {
  return redis::CallOptions().idempotent().within(10s).where(board.keys().root());
}

Async<> run_all(const Board& board, std::vector<Command> commands) {
  auto replies = co_await board.client().batch(std::move(commands), repairing(board));
  for (auto& reply : replies)
    if (!reply) co_return std::unexpected(reply.error());
  co_return ok;
}

void index(const BoardKeys& keys, const Artefact& artefact, bool is_claimed,
           std::vector<Command>& commands) {
  auto at = parts::milliseconds(artefact.created_at);
  commands.emplace_back("ZADD", keys.artefacts(), at, artefact.id);
  commands.emplace_back("ZADD", keys.artefacts(artefact.type), at, artefact.id);
  commands.emplace_back("SADD", keys.types(), artefact.type);
  commands.emplace_back("ZADD", keys.artefact_ids(), 0, artefact.id);
  commands.emplace_back("ZADD", keys.thread(artefact.logical_id), "NX", artefact.version,
                        artefact.id);
  // Claimed meanwhile: then whoever finds it here and claims it gets that claim, and takes it out.
  if (is_claimed)
    commands.emplace_back("ZREM", keys.unclaimed(), artefact.id);
  else if (needs_claim(artefact.structural_type))
    commands.emplace_back("ZADD", keys.unclaimed(), at, artefact.id);
}

// Puts artefacts among the children of their sources, the oldest first.
Async<> index_children(const Board& board, std::vector<Artefact> artefacts) {
  std::ranges::sort(artefacts, {}, [](const Artefact& a) { return std::pair(a.created_at, a.id); });
  Words keys, ids;
  for (std::size_t i = 0; i < artefacts.size(); ++i) {
    for (const auto& source : artefacts[i].source_artefacts) {
      keys.push_back(board.keys().children(source));
      ids.push_back(artefacts[i].id);
    }
    if (keys.empty() || (keys.size() < at_once && i + 1 < artefacts.size())) continue;
    auto added = co_await board.client().run(scripts::add_children, std::exchange(keys, {}),
                                             std::exchange(ids, {}), repairing(board));
    if (!added) co_return std::unexpected(added.error());
  }
  co_return ok;
}

Async<> index_artefacts(const Board& board, std::vector<Artefact> artefacts) {
  std::vector<Command> looks, writes;
  for (const auto& artefact : artefacts)
    looks.emplace_back("EXISTS", board.keys().claim_by_artefact(artefact.id));
  auto claimed = co_await board.client().batch(std::move(looks), repairing(board));
  for (std::size_t i = 0; i < claimed.size(); ++i) {
    if (!claimed[i]) co_return std::unexpected(claimed[i].error());
    index(board.keys(), artefacts[i], claimed[i]->number == 1, writes);
  }
  auto written = co_await run_all(board, std::move(writes));
  if (!written) co_return written;
  co_return co_await index_children(board, std::move(artefacts));
}

// The hashes of those that are there and can be read; what cannot is reported.
template <class T>
Async<std::vector<T>> readable(const Board& board, Words ids, Reindexed& seen,
                               std::string (BoardKeys::*key)(std::string_view) const,
                               Result<T> (*parse)(std::string_view, const Reply&)) {
  std::vector<Command> reads;
  for (const auto& id : ids) reads.emplace_back("HGETALL", (board.keys().*key)(id));
  auto hashes = co_await board.client().batch(std::move(reads), repairing(board));
  std::vector<T> items;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    auto item = read_hash<T>((board.keys().*key)(ids[i]), hashes[i], parse);
    if (item)
      items.push_back(*std::move(item));
    else if (item.error().code != Errc::protocol && item.error().code != Errc::not_found)
      co_return std::unexpected(item.error());
    else if (item.error().code == Errc::protocol && seen.unreadable.size() < most_reported)
      seen.unreadable.push_back(std::move(item.error()));
  }
  co_return items;
}

Async<> take_in_artefacts(const Board& board, Words ids, Reindexed& seen) {
  auto artefacts =
      co_await readable<Artefact>(board, std::move(ids), seen, &BoardKeys::artefact, artefact_from);
  if (!artefacts) co_return std::unexpected(artefacts.error());
  seen.artefacts += artefacts->size();
  co_return co_await index_artefacts(board, *std::move(artefacts));
}

// Puts claims into the index of their status, and takes those that are no more out of all.
Async<std::size_t> index_claims(const Board& board, Words ids) {
  Words keys{board.keys().claim_ids()}, args;
  for (auto status : claim_statuses) {
    keys.push_back(board.keys().claims(status));
    args.emplace_back(name(status));
  }
  for (const auto& id : ids) {
    keys.push_back(board.keys().claim(id));
    args.push_back(id);
  }
  auto found = co_await board.client().run(scripts::index_claims, std::move(keys), std::move(args),
                                           repairing(board));
  if (!found) co_return std::unexpected(found.error());
  co_return static_cast<std::size_t>(found->number);
}

Async<> take_in_claims(const Board& board, Words ids, Reindexed& seen) {
  auto claims =
      co_await readable<Claim>(board, std::move(ids), seen, &BoardKeys::claim, claim_from);
  if (!claims) co_return std::unexpected(claims.error());
  if (claims->empty()) co_return ok;
  Words found_ids;
  for (auto& claim : *claims) found_ids.push_back(std::move(claim.id));
  auto found = co_await index_claims(board, std::move(found_ids));
  if (!found) co_return std::unexpected(found.error());
  seen.claims += *found;
  co_return ok;
}

// All members of an index by name, so many at a time.
Async<Words> members_behind(const Board& board, std::string index, std::string last) {
  auto first = last.empty() ? std::string("-") : "(" + last;
  Command range("ZRANGEBYLEX", index, first, "+", "LIMIT", 0, at_once);
  auto reply = co_await board.client().ask(std::move(range), repairing(board));
  if (!reply) co_return std::unexpected(reply.error());
  Words ids;
  for (auto& item : reply->items) ids.push_back(std::move(item.text));
  co_return ids;
}

Async<Words> missing_artefacts(const Board& board, Words ids) {
  std::vector<Command> commands;
  for (const auto& id : ids) commands.emplace_back("EXISTS", board.keys().artefact(id));
  auto replies = co_await board.client().batch(std::move(commands), repairing(board));
  Words missing;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i]) co_return std::unexpected(replies[i].error());
    if (replies[i]->number == 0) missing.push_back(ids[i]);
  }
  co_return missing;
}

Async<> forget_missing_artefacts(const Board& board, Reindexed& seen) {
  const auto& keys = board.keys();
  auto types = co_await board.types();
  if (!types) co_return std::unexpected(types.error());
  for (std::string last;;) {
    auto ids = co_await members_behind(board, keys.artefact_ids(), last);
    if (!ids) co_return std::unexpected(ids.error());
    if (ids->empty()) co_return ok;
    last = ids->back();
    auto missing = co_await missing_artefacts(board, *std::move(ids));
    if (!missing) co_return std::unexpected(missing.error());
    seen.removed += missing->size();
    std::vector<Command> commands;
    for (const auto& id : *missing) {
      for (const auto& type : *types) commands.emplace_back("ZREM", keys.artefacts(type), id);
      commands.emplace_back("ZREM", keys.artefacts(), id);
      commands.emplace_back("ZREM", keys.unclaimed(), id);
      commands.emplace_back("ZREM", keys.artefact_ids(), id);
    }
    auto removed = co_await run_all(board, std::move(commands));
    if (!removed) co_return removed;
  }
}

Async<> forget_missing_claims(const Board& board, Reindexed& seen) {
  for (std::string last;;) {
    auto ids = co_await members_behind(board, board.keys().claim_ids(), last);
    if (!ids) co_return std::unexpected(ids.error());
    if (ids->empty()) co_return ok;
    last = ids->back();
    auto count = ids->size();
    auto found = co_await index_claims(board, *std::move(ids));
    if (!found) co_return std::unexpected(found.error());
    seen.removed += count - *found;
  }
}

// The id in a key that begins so; empty when it is another key, such as that of bids.
std::string id_in(std::string_view key, std::string_view begin) {
  if (!key.starts_with(begin)) return {};
  auto id = key.substr(begin.size());
  return canonical_uuid(id) ? std::string(id) : std::string();
}

}  // namespace

Async<> Board::adopt(Artefact artefact) const {
  std::vector<Artefact> artefacts{std::move(artefact)};
  co_return co_await index_artefacts(*this, std::move(artefacts));
}

Async<Reindexed> Board::reindex() const {
  Reindexed seen;
  auto artefact_begin = keys_.artefact(""), claim_begin = keys_.claim("");
  std::string cursor = "0";
  do {
    Command scan("SCAN", cursor, "MATCH", keys_.all(), "COUNT", at_once);
    auto reply = co_await client_->ask(std::move(scan), repairing(*this));
    if (!reply) co_return std::unexpected(reply.error());
    if (reply->items.size() != 2) co_return fail(Errc::protocol, "SCAN: {}", to_string(*reply));
    cursor = reply->items[0].text;
    Words artefacts, claims;
    for (const auto& key : reply->items[1].items) {
      if (auto id = id_in(key.text, artefact_begin); !id.empty())
        artefacts.push_back(std::move(id));
      else if (auto other = id_in(key.text, claim_begin); !other.empty())
        claims.push_back(std::move(other));
    }
    auto indexed = co_await take_in_artefacts(*this, std::move(artefacts), seen);
    if (indexed) indexed = co_await take_in_claims(*this, std::move(claims), seen);
    if (!indexed) co_return std::unexpected(indexed.error());
  } while (cursor != "0");
  auto forgotten = co_await forget_missing_artefacts(*this, seen);
  if (forgotten) forgotten = co_await forget_missing_claims(*this, seen);
  if (!forgotten) co_return std::unexpected(forgotten.error());
  co_return seen;
}

}  // namespace warren
