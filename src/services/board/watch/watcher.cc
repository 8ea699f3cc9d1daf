#include "services/board/watch/watcher.h"

#include <deque>

#include "services/board/store/json_parts.h"

namespace warren::watch {

using namespace board;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t page_size = 500;
constexpr std::size_t most_remembered = 50'000;
constexpr std::size_t most_drained = 1000;

UnixTime wall_clock() { return std::chrono::floor<milliseconds>(WallClock::now()); }

Listing listing_of(UnixTime since, UnixTime until) {
  Listing listing;
  listing.since = since;
  listing.until = until;
  listing.order = Order::oldest_first;
  listing.limit = page_size;
  return listing;
}

// The artefacts, or the claims, of a time, the oldest first, a page at a time.
class Source {
 public:
  Source(bool is_of_claims, Listing listing)
      : is_of_claims_(is_of_claims), listing_(std::move(listing)) {}

  // Nothing: there is no more.
  const Happening* first() const { return items_.empty() ? nullptr : &items_.front(); }
  Happening take() {
    auto item = std::move(items_.front());
    items_.pop_front();
    return item;
  }
  Async<> fill(const Board& board, const Watcher::Tell& tell) {
    while (items_.empty() && !is_done_) {
      Result<> filled = ok;  // not with ?: around two co_await, which g++ 12 destroys twice
      if (is_of_claims_)
        filled = co_await claims(board, tell);
      else
        filled = co_await artefacts(board, tell);
      if (!filled) co_return filled;
    }
    co_return ok;
  }

 private:
  void turn(const std::optional<Cursor>& next, const std::vector<Error>& unreadable,
            const Watcher::Tell& tell) {
    is_done_ = !next;
    listing_.after = next;
    for (const auto& error : unreadable) tell("skipped: " + error.what);
  }
  Async<> artefacts(const Board& board, const Watcher::Tell& tell) {
    auto page = co_await board.artefacts(listing_);
    if (!page) co_return std::unexpected(page.error());
    turn(page->next, page->unreadable, tell);
    for (auto& artefact : page->items)
      for (auto& happening : history_of(std::move(artefact)))
        items_.push_back(std::move(happening));
    co_return ok;
  }
  Async<> claims(const Board& board, const Watcher::Tell& tell) {
    auto page = co_await board.all_claims(listing_);
    if (!page) co_return std::unexpected(page.error());
    turn(page->next, page->unreadable, tell);
    for (auto& [claim, created_at] : page->items) items_.push_back({created_at, std::move(claim)});
    co_return ok;
  }

  bool is_of_claims_, is_done_ = false;
  Listing listing_;
  std::deque<Happening> items_;
};

Async<UnixTime> server_time(const Board& board) {
  auto options = redis::CallOptions().idempotent().where(board.keys().root());
  auto reply = co_await board.client().ask(redis::Command("TIME"), options);
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->items.size() != 2) co_return fail(Errc::protocol, "TIME: {}", to_string(*reply));
  auto number = [&reply](std::size_t i) { return std::atoll(reply->items[i].text.c_str()); };
  co_return parts::unix_time(number(0) * 1000 + number(1) / 1000);
}

}  // namespace

Watcher::Watcher(Board& board, BoardFeed& feed, WatchTerms terms, Show show, Tell tell)
    : board_(board),
      feed_(feed),
      terms_(std::move(terms)),
      show_(std::move(show)),
      tell_(std::move(tell)) {}

UnixTime Watcher::now() const { return wall_clock() + server_ahead_; }

Async<> Watcher::settle() {
  auto time = co_await server_time(board_);
  if (!time) co_return std::unexpected(time.error());
  server_ahead_ = *time - wall_clock();
  settled_at_ = *time;
  seen_ = Seen(*time);
  co_return co_await feed_.settled(Clock::now() + 10s);
}

Async<> Watcher::run() {
  const auto& filter = terms_.filter;
  if (terms_.with_history) {
    if (filter.since) seen_ = Seen(std::min(*filter.since, now()));
    auto replayed = co_await replay(filter.since.value_or(UnixTime{}), Origin::history);
    if (!replayed) co_return std::unexpected(replayed.error());
    if (*replayed == Next::end) co_return ok;
  }
  // Of many gaps in a row one look at history makes good: what is heard already comes first, as far
  // as it is not endless.
  std::optional<UnixTime> missed_from;
  for (std::size_t drained = 0;;) {
    auto deadline = missed_from ? Clock::now() : deadline_of(filter);
    if (!missed_from && deadline < Clock::now()) co_return ok;
    auto event = co_await feed_.next(deadline);
    bool is_late = !event && event.error().code == Errc::timeout;
    if (!event && !is_late) co_return std::unexpected(event.error());
    if (event && std::holds_alternative<Gap>(*event)) {
      if (!missed_from) missed_from = seen_.resume_from(), drained = 0;
    } else if (event) {
      auto taken = co_await take(*std::move(event));
      if (!taken) co_return std::unexpected(taken.error());
      if (*taken == Next::end) co_return ok;
    }
    if (!missed_from || (!is_late && ++drained < most_drained)) continue;
    tell_("the connection to Redis was lost for a moment; reading what happened meanwhile");
    auto since = *std::exchange(missed_from, std::nullopt);
    auto replayed = co_await replay(since, Origin::missed);
    if (!replayed) co_return std::unexpected(replayed.error());
    if (*replayed == Next::end) co_return ok;
  }
}

// When the filter lets nothing through any more.
Clock::time_point Watcher::deadline_of(const Filter& filter) const {
  if (!filter.until) return Clock::time_point::max();
  auto left = *filter.until - now();
  if (left > std::chrono::hours(24 * 365)) return Clock::time_point::max();
  return Clock::now() + left + milliseconds(1);
}

Async<Watcher::Next> Watcher::take(BoardEvent event) {
  if (auto* bad = std::get_if<Malformed>(&event)) {
    tell_(fmt::format("skipped an event: {}", bad->why));
    co_return Next::go_on;
  }
  Happening happening{now(), {}};
  if (auto* artefact = std::get_if<Artefact>(&event)) {
    happening.at = artefact->created_at;
    happening.what = std::move(*artefact);
  } else if (auto* claim = std::get_if<Claim>(&event)) {
    happening.what = std::move(*claim);
  } else if (auto* workflow = std::get_if<WorkflowEvent>(&event)) {
    happening.what = std::move(*workflow);
  } else {
    co_return Next::go_on;
  }
  co_return co_await offer(std::move(happening), Origin::live);
}

// Artefacts before the claims of the same moment. Those of a time that nobody knows come first, and
// only once.
Async<Watcher::Next> Watcher::replay(UnixTime since, Origin origin) {
  bool is_first = origin == Origin::history;
  auto until = terms_.filter.until.value_or(UnixTime::max());
  std::vector<Source> sources;
  if (is_first && since > UnixTime{}) sources.emplace_back(false, listing_of({}, {}));
  sources.emplace_back(false, listing_of(since, until));
  sources.emplace_back(true, listing_of(since, until));
  bool is_over = false;
  for (;;) {
    Source* earliest = nullptr;
    for (auto& source : sources) {
      auto filled = co_await source.fill(board_, tell_);
      if (!filled) co_return std::unexpected(filled.error());
      if (source.first() && (!earliest || source.first()->at < earliest->first()->at))
        earliest = &source;
    }
    if (!earliest) co_return is_over ? Next::end : Next::go_on;
    auto happening = earliest->take();
    auto next = co_await offer(std::move(happening), origin);
    if (!next) co_return next;
    // Of history all is shown, also what came after the end.
    is_over = is_over || *next == Next::end;
    if (is_over && !is_first) co_return Next::end;
  }
}

Async<Watcher::Next> Watcher::offer(Happening happening, Origin origin) {
  // One that history showed a moment ago, and that is heard now, ends it too.
  bool is_new_end = origin == Origin::live ||
                    (origin == Origin::missed && happening.at >= settled_at_) ||
                    terms_.filter.since.has_value();
  bool ends = terms_.until_completion && is_terminal(happening) && is_new_end;
  // A clock that is ahead must not let us skip what others make now.
  auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  if (seen_.add(key_of(happening), std::min(happening.at, now))) {
    std::string type;
    if (!terms_.filter.type.empty()) type = co_await type_of(happening);
    if (terms_.filter.fits(happening, type)) ends = !show_(happening) || ends;
  }
  co_return ends ? Next::end : Next::go_on;
}

// Of the artefact that it is about; empty when that cannot be found out.
awaitable<std::string> Watcher::type_of(const Happening& happening) {
  auto subject = subject_of(happening);
  if (types_.size() + claims_.size() > most_remembered) types_.clear(), claims_.clear();
  if (!subject.artefact_id.empty()) {
    if (!subject.type.empty()) types_[subject.artefact_id] = subject.type;
    if (!subject.claim_id.empty()) claims_[subject.claim_id] = subject.artefact_id;
  }
  if (!subject.type.empty()) co_return subject.type;
  auto id = subject.artefact_id;
  if (id.empty() && !subject.claim_id.empty()) {
    if (!claims_.contains(subject.claim_id)) {
      auto claim = co_await board_.claim(subject.claim_id);
      if (claim) claims_[subject.claim_id] = claim->artefact_id;
    }
    auto known = claims_.find(subject.claim_id);
    if (known != claims_.end()) id = known->second;
  }
  if (id.empty()) co_return "";
  if (!types_.contains(id)) {
    auto artefact = co_await board_.artefact(id);
    if (!artefact) co_return "";
    types_[id] = artefact->type;
  }
  co_return types_[id];
}

}  // namespace warren::watch
