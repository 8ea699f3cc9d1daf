// What is on a board, page by page, from indexes that the scripts keep.
#include <algorithm>

#include "services/board/store/board.h"
#include "services/board/store/causes.h"
#include "services/board/store/json_parts.h"
#include "services/board/store/scripts.h"

namespace warren {

using namespace board;
using redis::Command;
using redis::Reply;

namespace {

constexpr std::size_t page_most = 1000;
constexpr std::size_t shown_candidates = 10;
constexpr std::size_t least_short_id = 4;

redis::CallOptions reading(const Board& board) {
  return redis::CallOptions().idempotent().where(board.keys().root());
}

Async<std::vector<Cursor>> page(const Board& board, Words keys, Listing listing) {
  auto ms = [](UnixTime time) { return std::to_string(parts::milliseconds(time)); };
  Words args{listing.order == Order::newest_first ? "newest" : "oldest",
             ms(listing.since),
             ms(listing.until),
             std::to_string(listing.limit),
             listing.after ? std::to_string(listing.after->at_ms) : "",
             listing.after ? listing.after->id : ""};
  auto reply = co_await board.client().run(scripts::list_page, std::move(keys), std::move(args),
                                           reading(board));
  if (!reply) co_return std::unexpected(reply.error());
  std::vector<Cursor> entries;
  for (std::size_t i = 0; i + 1 < reply->items.size(); i += 2)
    entries.push_back({static_cast<std::int64_t>(std::atof(reply->items[i + 1].text.c_str())),
                       reply->items[i].text});
  if (listing.order == Order::newest_first) std::ranges::reverse(entries);
  co_return entries;
}

// The hashes of a page. What cannot be read is set aside, what is gone is left out.
template <class T>
Async<Page<T>> fetch(const Board& board, std::vector<Cursor> entries, std::size_t limit,
                     std::string (BoardKeys::*key)(std::string_view) const,
                     Result<T> (*parse)(std::string_view, const Reply&)) {
  Page<T> page;
  if (entries.size() == limit) page.next = entries.back();
  std::vector<Command> commands;
  for (const auto& entry : entries) commands.emplace_back("HGETALL", (board.keys().*key)(entry.id));
  auto replies = co_await board.client().batch(std::move(commands), reading(board));
  for (std::size_t i = 0; i < replies.size(); ++i) {
    auto item = read_hash<T>((board.keys().*key)(entries[i].id), replies[i], parse);
    if (item)
      page.items.push_back(*std::move(item));
    else if (item.error().code == Errc::protocol)
      page.unreadable.push_back(std::move(item.error()));
    else if (item.error().code != Errc::not_found)
      co_return std::unexpected(item.error());
  }
  co_return page;
}

Result<> check_limit(const Listing& listing) {
  if (listing.limit >= 1 && listing.limit <= page_most) return ok;
  return fail(Errc::invalid, "a page of {} is not 1 to {}", listing.limit, page_most);
}

// Lower case, and only what a UUID has.
Result<std::string> checked_begin(std::string_view begin) {
  std::string text;
  for (char c : begin) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    bool fits = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-';
    if (!fits || text.size() == 36)
      return fail(Errc::invalid, "{} is not the beginning of an id",
                  redis::quoted(begin.substr(0, 60)));
    text += c;
  }
  if (text.size() < least_short_id)
    return fail(Errc::invalid, "{} is too short: give at least {} characters of the id",
                redis::quoted(begin), least_short_id);
  return text;
}

Error ambiguous(const std::string& begin, const Reply& ids, std::int64_t count) {
  std::string list;
  for (std::size_t i = 0; i < std::min(ids.items.size(), shown_candidates); ++i)
    list += (i > 0 ? ", " : "") + ids.items[i].text;
  if (count > std::int64_t(shown_candidates))
    list += fmt::format(" ...and {} more", count - std::int64_t(shown_candidates));
  return {Errc::invalid, fmt::format("{} ids begin with {}: {}", count, begin, list)};
}

Async<std::string> find(const Board& board, std::string index, std::string begin,
                        std::string (BoardKeys::*key)(std::string_view) const) {
  if (auto whole = canonical_uuid(begin)) {
    Command exists("EXISTS", (board.keys().*key)(*whole));
    auto found = co_await board.client().ask(std::move(exists), reading(board));
    if (!found) co_return std::unexpected(found.error());
    if (found->number == 1) co_return *std::move(whole);
    auto name = (board.keys().*key)(*whole);
    co_return fail(Errc::not_found, board::causes::missing, name, "there is no {}", name);
  }
  auto text = checked_begin(begin);
  if (!text) co_return std::unexpected(text.error());
  auto first = "[" + *text, last = "[" + *text + "\xff";
  std::vector<Command> commands;
  commands.emplace_back("ZRANGEBYLEX", index, first, last, "LIMIT", 0, shown_candidates);
  commands.emplace_back("ZLEXCOUNT", index, first, last);
  auto replies = co_await board.client().batch(std::move(commands), reading(board));
  for (auto& reply : replies)
    if (!reply) co_return std::unexpected(reply.error());
  const auto& ids = *replies[0];
  if (ids.items.empty()) co_return fail(Errc::not_found, "no id begins with {}", *text);
  if (ids.items.size() > 1) co_return std::unexpected(ambiguous(*text, ids, replies[1]->number));
  co_return ids.items[0].text;
}

}  // namespace

Async<Page<Artefact>> Board::list(std::string index, Listing listing) const {
  if (auto checked = check_limit(listing); !checked) co_return std::unexpected(checked.error());
  auto limit = listing.limit;
  Words indexes{std::move(index)};
  auto entries = co_await page(*this, std::move(indexes), std::move(listing));
  if (!entries) co_return std::unexpected(entries.error());
  co_return co_await fetch<Artefact>(*this, *std::move(entries), limit, &BoardKeys::artefact,
                                     artefact_from);
}

Async<Page<Artefact>> Board::artefacts(Listing listing) const {
  auto index = listing.type.empty() ? keys_.artefacts() : keys_.artefacts(listing.type);
  return list(std::move(index), std::move(listing));
}

Async<Children> Board::children(std::string id, std::int64_t after_place) const {
  Children children;
  children.last_place = after_place;
  for (bool more = true; more;) {
    auto behind = "(" + std::to_string(children.last_place);
    Command range("ZRANGEBYSCORE", keys_.children(id), behind, "+inf", "LIMIT", 0, page_most);
    auto ids = co_await read(std::move(range));
    if (!ids) co_return std::unexpected(ids.error());
    more = ids->items.size() == page_most;
    std::vector<Cursor> entries;
    for (const auto& item : ids->items) entries.push_back({0, item.text});
    if (entries.empty()) break;
    Command place("ZSCORE", keys_.children(id), entries.back().id);
    auto last = co_await read(std::move(place));
    if (!last) co_return std::unexpected(last.error());
    children.last_place = static_cast<std::int64_t>(
        last->kind == Reply::Kind::real ? last->real() : std::atof(last->text.c_str()));
    auto page = co_await fetch<Artefact>(*this, std::move(entries), page_most, &BoardKeys::artefact,
                                         artefact_from);
    if (!page) co_return std::unexpected(page.error());
    std::ranges::move(page->items, std::back_inserter(children.items));
    std::ranges::move(page->unreadable, std::back_inserter(children.unreadable));
  }
  co_return children;
}

Async<Page<Artefact>> Board::unclaimed(Listing listing) const {
  return list(keys_.unclaimed(), std::move(listing));
}

Async<Page<Claim>> Board::claims(ClaimStatus status, Listing listing) const {
  if (auto checked = check_limit(listing); !checked) co_return std::unexpected(checked.error());
  auto limit = listing.limit;
  Words indexes{keys_.claims(status)};
  auto entries = co_await page(*this, std::move(indexes), std::move(listing));
  if (!entries) co_return std::unexpected(entries.error());
  auto found =
      co_await fetch<Claim>(*this, *std::move(entries), limit, &BoardKeys::claim, claim_from);
  // The Go program changes a claim without telling the index.
  if (found)
    std::erase_if(found->items, [status](const Claim& claim) { return claim.status != status; });
  co_return found;
}

Async<Page<DatedClaim>> Board::all_claims(Listing listing) const {
  if (auto checked = check_limit(listing); !checked) co_return std::unexpected(checked.error());
  auto limit = listing.limit;
  Words indexes;
  for (auto status : claim_statuses) indexes.push_back(keys_.claims(status));
  auto entries = co_await page(*this, std::move(indexes), std::move(listing));
  if (!entries) co_return std::unexpected(entries.error());
  std::map<std::string, UnixTime, std::less<>> times;
  for (const auto& entry : *entries) times[entry.id] = parts::unix_time(entry.at_ms);
  auto found =
      co_await fetch<Claim>(*this, *std::move(entries), limit, &BoardKeys::claim, claim_from);
  if (!found) co_return std::unexpected(found.error());
  Page<DatedClaim> claims{{}, std::move(found->next), std::move(found->unreadable)};
  for (auto& claim : found->items) {
    auto at = times[claim.id];
    claims.items.push_back({std::move(claim), at});
  }
  co_return claims;
}

Async<std::vector<std::string>> Board::types() const {
  auto reply = co_await read(Command("SMEMBERS", keys_.types()));
  if (!reply) co_return std::unexpected(reply.error());
  Words types;
  for (auto& item : reply->items) types.push_back(std::move(item.text));
  std::ranges::sort(types);
  co_return types;
}

Async<Counts> Board::counts() const {
  std::vector<Command> commands;
  commands.emplace_back("ZCARD", keys_.artefacts());
  for (auto status : claim_statuses)
    if (is_open(status)) commands.emplace_back("ZCARD", keys_.claims(status));
  auto replies = co_await client_->batch(std::move(commands), reading(*this));
  Counts counts;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i]) co_return std::unexpected(replies[i].error());
    auto& count = i == 0 ? counts.artefacts : counts.open_claims;
    count += static_cast<std::size_t>(replies[i]->number);
  }
  co_return counts;
}

Async<std::string> Board::find_artefact(std::string id_begin) const {
  return find(*this, keys_.artefact_ids(), std::move(id_begin), &BoardKeys::artefact);
}

Async<std::string> Board::find_claim(std::string id_begin) const {
  return find(*this, keys_.claim_ids(), std::move(id_begin), &BoardKeys::claim);
}

}  // namespace warren
