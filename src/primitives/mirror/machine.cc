#include "primitives/mirror/machine.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <limits>

#include "primitives/mirror/scripts.h"
#include "redis/causes.h"

namespace warren::mirror {

namespace {

using redis::Reply;
using Kind = Request::Kind;

constexpr std::size_t log_page = 1000;        // entries
constexpr auto late = 1s;                     // an answer that took longer than this was too large,
constexpr auto quick = 250ms;                 // and one that took less than this may be larger
constexpr std::size_t enough_values = 1000;   // to know how large they are
constexpr std::size_t little = 1u << 20;      // bytes of a page of values
constexpr std::size_t small_log = 48u << 20;  // bytes: the size of one page at the very worst
constexpr std::size_t small_entry = 4u << 10;  // bytes: usually the limit for one page, times 1000
constexpr int plain_log_pages = 16;            // before its size is checked again
constexpr std::size_t fetch_page = 200;
constexpr std::size_t compare_page = 500;
constexpr std::size_t most_pages = 4;
constexpr auto split_time = 1s;  // after two keys were not on one server
constexpr std::size_t most_held = 10'000, most_held_bytes = 8u << 20;
constexpr std::size_t most_lost = 64, most_checks = 16, most_recent = 1000, most_own = 1000;
constexpr std::size_t most_dirty = 100'000, most_parked = 64, most_gone = 4096;
// How long to wait for a push before the log is read instead.
constexpr auto push_patience = 50ms;

std::string escaped(std::string_view text) {
  std::string pattern;
  for (char c : text) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::string sha1(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

std::optional<Entry> entry_of(const Reply& item) {
  if (item.items.size() != 2) return {};
  auto version = parse_version(item.items[0].text);
  const auto& fields = item.items[1];
  const Reply *before = fields.find("p"), *stamp = fields.find("s"), *packed = fields.find("b");
  if (!version || !before || !stamp || !packed) return {};
  return Entry{{*version, stamp->text}, before->text, packed->text};
}

Version previous(Version version) {
  if (version.sequence > 0) return {version.epoch, version.sequence - 1};
  return {version.epoch - 1, std::numeric_limits<std::uint64_t>::max()};
}

// Returns an empty Tail before the first entry.
std::optional<Tail> tail_of(const Reply& reply) {
  return reply.is_null() ? Tail{} : parse_tail(reply.text);
}

Clock::duration backoff(int failures, double unit) {
  auto most = std::min<Clock::duration>(1s, 10ms * (1 << std::min(failures, 7)));
  return std::chrono::duration_cast<Clock::duration>(most * (0.5 + unit / 2));
}

// XADD refuses an id below the last one: the writer's epoch is over. The tail will tell it the
// current one.
bool is_of_old_epoch(const Error& error) { return error.cause == redis::causes::id_not_above; }

}  // namespace

Machine::Machine(MirrorTerms terms, std::string writer, std::function<double()> random, Flaws flaws)
    : terms_(std::move(terms)),
      pattern_(escaped(terms_.prefix) + "*"),
      random_(std::move(random)),
      flaws_(flaws),
      outbox_(terms_, std::move(writer)),
      tables_(terms_.types.size()),
      published_(std::make_shared<Snapshot>(tables_, Version{}, Clock::time_point{})) {}

void Pace::on_answer(std::size_t asked, Clock::duration took, bool is_full) {
  // Requests that were sent together are all late together; that counts once.
  if (took > late)
    bytes_ = std::max(least_bytes, std::min(bytes_, asked / 2));
  else if (took < quick && is_full && asked == bytes_)
    bytes_ = std::min(most_bytes, 2 * bytes_);
}

// --- facts ---------------------------------------------------------------------------------------

void Machine::on_subscribed(Clock::time_point now) {
  if (phase_ == MirrorPhase::cold) begin_load(now);
}

void Machine::on_gap(Clock::time_point now) {
  if (phase_ == MirrorPhase::cold || flaws_.ignores_gaps) return;
  if (phase_ == MirrorPhase::tailing) begin_catch_up();
  hurries_ = true;
  if (!loading_) restart_compare(now);  // otherwise once everything has been read
}

void Machine::on_connected(Clock::time_point now, std::uint64_t epoch) {
  epoch_ = epoch;
  ++connection_;
  tail_at_ = retry_at_ = write_at_ = now;
  common_ = shown_common_ = logged_ = dead_ = {};
  target_ = position_.version;
  checks_.clear();
  asks_tail_ = must_probe_ = false;
  log_page_.reset();
  for (auto& fetched : std::exchange(parked_, {})) fetch_again(std::move(fetched));
  for (auto& unplaced : std::exchange(unplaced_, {})) fetch_again(std::move(unplaced.fetched));
  if (!loading_) forget_own();
  // The data of two servers must not be mixed.
  if (loading_ && (phase_ == MirrorPhase::snapshot || phase_ == MirrorPhase::catch_up))
    begin_load(now);
  if (compares_) restart_compare(now);
}

void Machine::on_message(Clock::time_point now, std::string_view channel,
                         std::string_view payload) {
  if (channel == terms_.log_channel()) {
    auto entry = parse_push(payload);
    if (entry) return take(now, *std::move(entry));
  } else if (channel == terms_.channel) {
    if (payload.ends_with(R"(,"via":"log"})")) return;
    boost::system::error_code error;
    auto notice = boost::json::parse(payload, error);
    auto* members = error ? nullptr : notice.if_object();
    auto* type = members ? members->if_contains("type") : nullptr;
    auto* id = members ? members->if_contains("id") : nullptr;
    if (type && type->is_string() && id && id->is_string()) {
      ++counters_.notifications;
      for (const auto& known : terms_.types)
        if (type->get_string() == known.name)
          mark_dirty(terms_.prefix + known.folder + std::string(id->get_string()));
      return;
    }
  }
  ++counters_.malformed;
}

void Machine::on_reply(Clock::time_point now, Request request, Result<Reply> reply) {
  if (reply) heard_at_ = now;
  switch (request.kind) {
    case Kind::write:
      return on_write_reply(now, std::move(request), reply);
    case Kind::tail:
      if (request.run == run_ && request.connection == connection_) asks_tail_ = false;
      break;
    case Kind::catch_up:
    case Kind::probe:
      asks_log_ = false;
      break;
    case Kind::place:
      asks_place_ = false;
      break;
    case Kind::scan:
    case Kind::digest:
      asks_page_ = false;
      break;
    case Kind::load:
    case Kind::fetch:
      --fetches_;
      break;
  }
  if (!reply && request.bytes > 0) pace_.on_answer(request.bytes, now - request.sent_at, false);
  if (request.run != run_) return;
  if (request.kind == Kind::load || request.kind == Kind::fetch) --own_fetches_;
  if (request.connection != connection_) return ask_again(std::move(request));
  bool is_of_round =
      request.kind == Kind::place || request.kind == Kind::scan || request.kind == Kind::digest;
  if (is_of_round && request.round != round_) return;
  if (!reply) return on_failure(now, std::move(request), reply.error());
  failures_ = 0;
  switch (request.kind) {
    case Kind::tail:
      return on_tail(now, request, *reply);
    case Kind::catch_up:
      return on_log(now, request, *std::move(reply));
    case Kind::probe:
      return on_probe(now, *reply);
    case Kind::place:
      return on_place(now, *reply);
    case Kind::scan:
      return on_scan(now, *reply);
    case Kind::fetch:
      return on_fetched(now, std::move(request), *std::move(reply));
    case Kind::load:
      return on_loaded(now, std::move(request), *reply);
    case Kind::digest:
      return on_digest(request, *reply);
    case Kind::write:
      return;
  }
}

void Machine::on_failure(Clock::time_point now, Request request, const Error& error) {
  if (error.cause == redis::causes::split_keys) return on_split(now, std::move(request));
  retry_at_ = now + backoff(failures_++, random_());
  ask_again(std::move(request));
}

void Machine::ask_again(Request request) {
  auto& words = request.words;
  if (request.kind == Kind::load || request.kind == Kind::fetch) words.erase(words.begin());
  if (request.kind == Kind::load || (request.kind == Kind::digest && request.round == round_))
    pages_.push_back(std::move(words));
  else if (request.kind == Kind::fetch)
    for (auto& key : words) mark_dirty(std::move(key));
}

// The slot moves, and the keys were not all on one server.
void Machine::on_split(Clock::time_point now, Request request) {
  if (request.kind == Kind::load) {
    retry_at_ = now + backoff(failures_++, random_());
    return begin_load(now);  // from both servers
  }
  if (request.kind == Kind::digest) return restart_compare(now + compare_rest());
  one_by_one_until_ = now + split_time;
  for (std::size_t i = 1; i < request.words.size(); ++i) mark_dirty(std::move(request.words[i]));
}

void Machine::on_write_reply(Clock::time_point now, Request request, const Result<Reply>& reply) {
  writes_ = false;
  auto version =
      reply && !reply->items.empty() ? parse_version(reply->items[0].text) : std::nullopt;
  if (version) {
    write_failures_ = 0;
    blocked_since_.reset();
    ++counters_.writes;
    auto part = [&](std::size_t i) {
      return reply->items.size() > i ? reply->items[i].text : std::string();
    };
    written_ = outbox_.on_written(*version, part(2), part(1));
    written_on_ = request.connection;
    return;
  }
  Error error = reply ? Error{Errc::protocol, "the script answered " + redis::to_string(*reply)}
                      : reply.error();
  if (!may_retry(error) && !is_of_old_epoch(error)) {
    blocked_since_.reset();
    ++counters_.refused_writes;
    return outbox_.on_refused(error);
  }
  if (!blocked_since_) blocked_since_ = request.sent_at;
  ++counters_.write_retries;
  outbox_.on_failed({std::move(request.words), std::move(request.args)}, flaws_.reorders_retries);
  write_at_ = now + backoff(write_failures_++, random_());
  tail_at_ = now;  // the epoch may be old: the history that we have not seen yet tells the new one
}

// Our own entry is in the log, so there is no need to wait for the push. If it cannot be applied
// yet, we remember that it must come.
void Machine::on_own(Clock::time_point now, Entry entry) {
  Own own{entry.at.version, entry.at, written_on_, now};
  if (flaws_.tolerates_own_gap && own.first > position_.version) entry.before = position_.stamp;
  free_place(own.first);
  if (!entry.before.empty()) take(now, std::move(entry));
  if (has(own.at) == true && !loading_) return;
  tail_at_ = now;
  if (!loading_ && own.first <= position_.version && own.connection != connection_)
    return tell_rewrite(newest_before(own.first), own.first, has(own.at) == false);
  if (own_.size() >= most_own && own_.back().connection == own.connection) {
    own.first = own_.back().first;
    own_.pop_back();
  }
  own_.push_back(std::move(own));
}

// This place was lost with others, and has been taken again in the new history.
void Machine::free_place(Version version) {
  std::deque<HistoryRewritten> lost;
  for (const auto& range : lost_) {
    bool is_in = range.after < version && version <= range.until;
    auto end = is_in ? previous(version) : range.until;
    if (range.after < end) lost.push_back({range.after, end, range.certain});
    if (is_in && version < range.until) lost.push_back({version, range.until, range.certain});
  }
  while (lost.size() > most_lost) lost.pop_front();
  lost_ = std::move(lost);
}

// --- the log -------------------------------------------------------------------------------------

void Machine::on_tail(Clock::time_point now, const Request& request, const Reply& reply) {
  auto tail = tail_of(reply);
  tail_at_ = request.sent_at + terms_.tail_check;
  if (!tail) {
    ++counters_.malformed;
    return begin_resync(now);
  }
  auto at = std::move(tail->at);
  auto fresh_at = flaws_.understates_age ? now : request.sent_at;
  dead_ = at == Position{} ? logged_ : Version{};
  miss_own(at.version, request.sent_at);
  bool is_other = is_born_otherwise(*tail);
  if (phase_ == MirrorPhase::subscribed) {
    if (is_other)
      for (auto& own : own_) own.connection = 0;  // nothing tells which of the two has it
    born_ = tail->born;
    position_ = at;
    target_ = common_ = at.version;
    recent_ = {at};
    checks_ = {{std::move(at), fresh_at}};
    phase_ = MirrorPhase::snapshot;
    return;
  }
  if (is_other) return rewritten(now, {});
  if (born_.empty()) born_ = tail->born;
  if (at.version < request.position) return lost_behind(now, at);
  expect_tail(at, fresh_at);
  reach(now, at.version);
  place_fetched(now, request.sent_at, at);
}

bool Machine::is_born_otherwise(const Tail& tail) const {
  return !born_.empty() && !tail.born.empty() && tail.born != born_;
}

// Whether this entry was applied. Returns nullopt if it is too new or too old to tell.
std::optional<bool> Machine::has(const Position& at) const {
  if (at.version > position_.version || recent_.empty() || at.version < recent_.front().version)
    return {};
  auto found = std::ranges::lower_bound(recent_, at.version, {}, &Position::version);
  return found != recent_.end() && *found == at;
}

// The last entry applied before this one, as far as we remember.
Version Machine::newest_before(Version version) const {
  auto found = std::ranges::lower_bound(recent_, version, {}, &Position::version);
  return found == recent_.begin() ? Version{} : std::prev(found)->version;
}

void Machine::expect_tail(Position tail, Clock::time_point asked_at) {
  target_ = std::max(target_, tail.version);
  checks_.push_back({std::move(tail), asked_at});
  if (checks_.size() > most_checks) checks_.pop_front();
}

// Redis is known to be at `target`: a push will bring the entry, or else the log is read.
void Machine::reach(Clock::time_point now, Version target) {
  target_ = std::max(target_, target);
  confirm();
  if (target_ > position_.version && behind_until_ == Clock::time_point::max())
    behind_until_ = now + push_patience;
}

void Machine::confirm() {
  for (; !checks_.empty() && checks_.front().tail.version <= position_.version;
       checks_.pop_front()) {
    const auto& check = checks_.front();
    auto known = has(check.tail);
    if (known == false) diverged_ = true;
    if (known != true) continue;
    fresh_at_ = std::max(fresh_at_, check.sent_at);
    common_ = std::max(common_, check.tail.version);
    if (loading_) continue;
    std::erase_if(own_, [&](const Own& own) {
      return own.at.version <= check.tail.version && own.connection == connection_ &&
             own.told_at <= check.sent_at;
    });
  }
  if (position_.version >= target_) behind_until_ = Clock::time_point::max();
}

void Machine::take(Clock::time_point now, Entry entry) {
  if (phase_ == MirrorPhase::cold || phase_ == MirrorPhase::resync) return;
  if (phase_ != MirrorPhase::tailing) return hold(std::move(entry));
  if (follows(entry)) {
    ++counters_.pushed;
    return apply(entry);
  }
  if (entry.at.version <= position_.version) {
    // Known already, unless history has changed.
    if (has(entry.at) == false || entry.before == position_.stamp) tail_at_ = now;
    return fetch_foreign(entry);
  }
  hold(std::move(entry));
  begin_catch_up();
}

// An entry that our history lacks may have changed values, so its keys are fetched. If only the
// head was deleted, the next entry follows none, as if it were the first. The answer to our own
// write may also come before the push of an earlier entry.
void Machine::fetch_foreign(const Entry& entry) {
  if (has(entry.at) != false) return;
  auto changes = unpack(entry.packed);
  if (!changes) return;
  for (const auto& change : *changes)
    if (name_of(change.key)) mark_dirty(terms_.prefix + std::string(change.key));
}

void Machine::hold(Entry entry) {
  if (held_.size() >= most_held || held_bytes_ >= most_held_bytes) {
    held_.clear();  // the log has them
    held_bytes_ = 0;
  }
  held_bytes_ += entry.packed.size();
  held_.push_back(std::move(entry));
}

bool Machine::follows(const Entry& entry) const {
  auto expected = position_.version.sequence + 2;
  if (flaws_.tolerates_one_gap && entry.at.version == Version{position_.version.epoch, expected})
    return true;
  return entry.before == position_.stamp && entry.at.version > position_.version;
}

// Everything up to here is loaded, or the server that could have confirmed it is gone. Our
// acknowledged writes up to here are in it, unless another server acknowledged them: then we cannot
// tell.
void Machine::forget_own() {
  std::erase_if(own_, [&](const Own& own) {
    if (own.at.version > position_.version) return false;
    auto is_here = has(own.at);
    if (is_here == false || (!is_here && own.connection != connection_))
      tell_rewrite(previous(own.first), own.at.version, is_here == false);
    return true;
  });
}

// Compares the writes of ours that were acknowledged with what history has instead.
void Machine::expect_own(const Position& at) {
  auto after = position_.version, until = Version{};
  std::erase_if(own_, [&](const Own& own) {
    if (own.at.version <= position_.version || own.at.version > at.version) return false;
    if (own.at == at) return !loading_;  // what is loaded may still be given up
    after = std::min(after, previous(own.first));
    until = std::max(until, own.at.version);
    return true;
  });
  if (until > Version{}) tell_rewrite(after, until, true);
}

// A write acknowledged before the tail was requested, but after that tail, will never come.
void Machine::miss_own(Version tail, Clock::time_point asked_at) {
  auto after = tail, until = Version{};
  std::erase_if(own_, [&](const Own& own) {
    if (own.at.version <= tail || own.told_at > asked_at) return false;
    after = std::min(after, previous(own.first));
    until = std::max(until, own.at.version);
    return true;
  });
  if (until > Version{}) tell_rewrite(after, until, true);
}

void Machine::apply(const Entry& entry) {
  expect_own(entry.at);
  auto changes = unpack(entry.packed);
  if (!changes) ++counters_.malformed;
  if (changes)
    for (const auto& [key, value] : *changes) {
      auto name = name_of(key);
      if (!name) continue;
      const auto* known = find(*name);
      if (known && known->version() >= entry.at.version) continue;
      if (value)
        set(*name, *value, entry.at.version);
      else if (!flaws_.skips_deletes || !loading_)
        erase(*name, entry.at.version);
    }
  if (entry.before == Position().stamp) born_ = entry.at.stamp;
  position_ = entry.at;
  recent_.push_back(entry.at);
  if (recent_.size() > most_recent) recent_.pop_front();
  changed_ = true;
  ++counters_.applied;
  confirm();
  while (!parked_.empty() && parked_.front().at.version <= position_.version) {
    apply_fetched(std::move(parked_.front()));
    parked_.pop_front();
  }
}

void Machine::begin_catch_up() {
  phase_ = MirrorPhase::catch_up;
  behind_until_ = Clock::time_point::max();
  must_probe_ = false;
  ++counters_.catch_ups;
}

void Machine::on_log(Clock::time_point now, const Request& request, Reply reply) {
  if (log_page_) apply_page(now, *std::exchange(log_page_, {}));
  LogPage page{request.position, std::move(reply.items), true};
  auto& entries = page.entries;
  if (!request.script) {
    page.is_last = entries.size() < log_page;
  } else if (!entries.empty() && entries.back().items.empty()) {
    auto bytes = entries.back().number;
    entries.pop_back();
    page.is_last = false;
    bool is_small = bytes >= 0 && static_cast<std::uint64_t>(bytes) <= small_log;
    bool has_small_entries = request.bytes / small_entry <= entries.size();
    plain_log_pages_ = is_small && has_small_entries ? plain_log_pages : 0;
  }
  pace_.on_answer(request.bytes, now - request.sent_at, !page.is_last);
  bool has_id = !entries.empty() && !entries.back().items.empty();
  if (page.is_last || !has_id) return apply_page(now, std::move(page));
  log_page_ = std::move(page);
}

void Machine::apply_page(Clock::time_point now, LogPage page) {
  if (must_probe_) return;  // it was requested before we knew
  auto last = page.entries.empty() ? std::nullopt : entry_of(page.entries.back());
  if (last) logged_ = last->at.version;
  if (page.is_last && (!last || last->at.version < dead_)) dead_ = {};  // that log is gone, too
  auto from = position_ == Position{} ? dead_ : position_.version;
  for (const auto& item : page.entries) {
    auto entry = entry_of(item);
    if (!entry) ++counters_.malformed;
    if (!entry || entry->at.version <= std::max(from, position_.version)) continue;
    must_probe_ = !follows(*entry);
    if (must_probe_) return;
    apply(*entry);
    common_ = position_.version;
  }
  if (!page.is_last) return;
  must_probe_ = position_.version < page.target;
  if (!must_probe_) finish_catch_up(now);
}

void Machine::finish_catch_up(Clock::time_point now) {
  while (!held_.empty()) {
    Entry entry = std::move(held_.front());
    held_.pop_front();
    if (follows(entry)) {
      apply(entry);
    } else if (entry.at.version > position_.version) {
      // It came after we asked, or from a server that was replaced: the log knows.
      held_.clear();
      held_bytes_ = 0;
      return;
    } else {
      fetch_foreign(entry);
    }
  }
  held_bytes_ = 0;
  phase_ = MirrorPhase::tailing;
  tail_at_ = now;
  reach(now, target_);
  if (!loading_) return;
  if (std::exchange(diverged_, false)) return begin_resync(now);  // the values are not of this log
  forget_own();
  loading_ = false;
  restart_compare(hurries_ ? now : now + compare_rest());
  compare_with_shown();
  ready_ = changed_ = true;
}

// Everything is loaded, and replaces what readers see.
void Machine::compare_with_shown() {
  auto still = told_.value_or(left_);  // still valid, as far as was reported
  if (still == Version{}) return;
  bool is_other = !shown_born_.empty() && !born_.empty() && born_ != shown_born_;
  bool goes_back = position_.version < still;
  if (is_other || goes_back)
    tell_shown({}, is_other);
  else if (shown_common_ < still)
    tell_shown(shown_common_, false);
}

// Our last entry is not in the log, or the entry that follows it is not.
void Machine::on_probe(Clock::time_point now, const Reply& reply) {
  must_probe_ = false;
  auto nearest = reply.items.empty() ? std::nullopt : entry_of(reply.items[0]);
  if (nearest && nearest->at != position_) {
    if (has(nearest->at) == true) return rewritten(now, nearest->at.version);
    auto shared = std::ranges::find(recent_, nearest->before, &Position::stamp);
    return rewritten(now, shared == recent_.end() ? Version{} : shared->version);
  }
  if (nearest) common_ = position_.version;
  begin_resync(now);
}

// The server has less than we had when we asked it.
void Machine::lost_behind(Clock::time_point now, const Position& tail) {
  rewritten(now, has(tail) == true ? tail.version : Version{});
}

// A program may read as soon as it hears of this. So entries that were applied but not shown yet
// must not become visible afterwards, since their loss would not be reported again.
void Machine::rewritten(Clock::time_point now, Version after) {
  bool is_shown = !loading_;  // otherwise compared with what readers see once everything is loaded
  leave_shown();
  if (is_shown) {
    tell_shown(after, true);
    shown_common_ = after;
  }
  begin_resync(now);
}

// From here on, what readers see stays as it is until everything is loaded.
void Machine::leave_shown() {
  if (loading_) return;
  left_ = position_.version;
  shown_born_ = born_;
  shown_common_ = common_;
  loading_ = true;
}

void Machine::tell_shown(Version after, bool certain) {
  tell_rewrite(after, left_, certain);
  told_ = after;
}

void Machine::tell_rewrite(Version after, Version until, bool certain) {
  ++counters_.rewrites;
  rewrites_.push_back({after, until, certain});
  lost_.push_back(rewrites_.back());
  if (lost_.size() > most_lost) lost_.pop_front();
}

Fate Machine::fate_of(Version version) const {
  for (const auto& range : lost_)
    if (range.after < version && version <= range.until)
      return range.certain ? Fate::lost : Fate::unknown;
  for (const auto& own : own_)
    if (version <= own.at.version) return Fate::awaited;
  return published_->version() >= version ? Fate::applied : Fate::awaited;
}

void Machine::begin_resync(Clock::time_point now) {
  publish();
  leave_shown();
  phase_ = MirrorPhase::resync;
  ++run_;
  log_page_.reset();
  auto spread = std::chrono::duration_cast<Clock::duration>(terms_.resync_spread * random_());
  resync_at_ = std::max(now + spread, loaded_at_ + terms_.resync_pause);
}

// --- all keys ------------------------------------------------------------------------------------

void Machine::begin_load(Clock::time_point now) {
  phase_ = MirrorPhase::subscribed;
  loading_ = true;
  loaded_at_ = now;
  ++run_;
  ++counters_.snapshots;
  asks_tail_ = must_probe_ = false;
  own_fetches_ = 0;
  loaded_values_ = loaded_bytes_ = 0;
  log_page_.reset();
  behind_until_ = Clock::time_point::max();
  diverged_ = false;
  tables_ = std::vector<Table>(terms_.types.size());
  ++edit_;
  held_.clear();
  held_bytes_ = 0;
  checks_.clear();
  parked_.clear();
  unplaced_.clear();
  gone_.clear();
  gone_floor_ = {};
  restart_compare(now);
}

void Machine::restart_compare(Clock::time_point when) {
  ++round_;
  compares_ = scanned_ = scans_target_ = false;
  place_.reset();
  cursor_ = "0";
  pages_.clear();
  seen_.clear();
  compare_at_ = when;
}

// Asked before all keys are read, and for a load again afterwards.
void Machine::on_place(Clock::time_point now, const Reply& reply) {
  auto place = parse_slot_place(reply.text, redis::slot_of(terms_.head_key()));
  if (phase_ != MirrorPhase::snapshot) {
    if (!place || place->moves()) return restart_compare(now + compare_rest());
    place_ = std::move(place);
    return;
  }
  if (place && !place_) {
    place_ = std::move(place);
  } else if (place && (place_->was_read_whole(*place) || flaws_.ignores_moves)) {
    begin_catch_up();
  } else {
    // Asking for the tail makes the client learn of the new owner.
    if (!place) retry_at_ = now + backoff(failures_++, random_());
    begin_load(now);
  }
}

void Machine::on_scan(Clock::time_point now, const Reply& reply) {
  if (reply.items.size() != 2) return begin_resync(now);
  cursor_ = reply.items[0].text;
  scanned_ = cursor_ == "0";
  bool has_target =
      phase_ == MirrorPhase::snapshot && place_ && place_->moves() && !flaws_.ignores_target;
  if (scanned_ && has_target && !std::exchange(scans_target_, true)) scanned_ = false;
  std::vector<std::string> page;
  for (const auto& key : reply.items[1].items)
    if (name_of_whole(key.text)) page.push_back(key.text);
  if (!page.empty()) pages_.push_back(std::move(page));
  if (phase_ == MirrorPhase::snapshot && is_loaded() && !is_clustered_) begin_catch_up();
}

bool Machine::is_loaded() const { return scanned_ && pages_.empty() && own_fetches_ == 0; }

// The values are at least as new as the position, and later changes in the log are applied over
// them. Changes of older peers are notified meanwhile, and fetched afterwards.
void Machine::on_loaded(Clock::time_point now, Request request, const Reply& reply) {
  auto& keys = request.words;                 // after one more word
  std::size_t head = request.script ? 1 : 0;  // the tail comes before the values
  auto count = reply.items.size() - head + 1;
  if (reply.items.size() <= head || count > keys.size()) return begin_resync(now);
  if (request.script) {
    auto tail = tail_of(reply.items[0]);
    if (!tail || tail->at.version < position_.version || is_born_otherwise(*tail))
      return begin_resync(now);                         // everything was deleted meanwhile
    expect_tail(std::move(tail->at), request.sent_at);  // the values are from there
  }
  pace_.on_answer(request.bytes, now - request.sent_at, count < keys.size());
  for (std::size_t i = 1; i < count; ++i) {
    const auto& value = reply.items[i - 1 + head];
    if (auto name = name_of_whole(keys[i]); name && !value.is_null())
      set(*name, value.text, position_.version);
    ++loaded_values_;
    loaded_bytes_ += value.text.size();
  }
  keys.erase(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count));
  if (!keys.empty()) pages_.push_front(std::move(keys));
  if (is_loaded() && !is_clustered_) begin_catch_up();
}

void Machine::on_fetched(Clock::time_point now, Request request, Reply reply) {
  auto& items = reply.items;
  if (!request.script) {
    if (items.size() != 1) return begin_resync(now);
    items.insert(items.begin(), Reply());
    Fetched fetched{{}, std::move(request.words), std::move(items), request.position};
    unplaced_.push_back({std::move(fetched), now});
    tail_at_ = now;
    return;
  }
  auto tail = items.empty() ? std::nullopt : tail_of(items[0]);
  auto count = items.size();
  if (!tail || count < 2 || count > request.words.size()) return begin_resync(now);
  // Its values are old, and must not replace what the log has brought since.
  if (tail->at.version < request.position) return lost_behind(now, tail->at);
  pace_.on_answer(request.bytes, now - request.sent_at, count < request.words.size());
  for (; request.words.size() > count; request.words.pop_back())
    mark_dirty(std::move(request.words.back()));
  auto since = tail->at.version;
  take_fetched(now, {std::move(tail->at), std::move(request.words), std::move(items), since});
}

void Machine::take_fetched(Clock::time_point now, Fetched fetched) {
  auto version = fetched.at.version;
  if (version <= position_.version) {
    apply_fetched(std::move(fetched));
  } else if (parked_.size() < most_parked) {
    parked_.push_back(std::move(fetched));
    reach(now, version);
  } else {
    fetch_again(std::move(fetched));
  }
  if (has_fetches()) return;
  gone_.clear();
  gone_floor_ = {};
}

// A value that was read alone is at least as new as what had been applied when it was requested,
// and not newer than a tail that was requested afterwards.
void Machine::place_fetched(Clock::time_point now, Clock::time_point asked_at,
                            const Position& tail) {
  for (auto count = unplaced_.size(); count > 0; --count) {
    auto each = std::move(unplaced_.front());
    unplaced_.erase(unplaced_.begin());  // later ones are still under way
    if (each.answered_at > asked_at) {
      unplaced_.push_back(std::move(each));
      tail_at_ = now;
      continue;
    }
    each.fetched.at = tail;
    take_fetched(now, std::move(each.fetched));
  }
}

bool Machine::has_fetches() const {
  return own_fetches_ > 0 || !parked_.empty() || !unplaced_.empty();
}

void Machine::fetch_again(Fetched fetched) {
  for (std::size_t i = 1; i < fetched.keys.size(); ++i) mark_dirty(std::move(fetched.keys[i]));
}

void Machine::apply_fetched(Fetched fetched) {
  auto is_ours = has(fetched.at);
  if (!is_ours) return fetch_again(std::move(fetched));  // it is too long ago to tell
  if (!*is_ours) {
    diverged_ = true;  // everything is read again
    return;
  }
  for (std::size_t i = 1; i < fetched.keys.size(); ++i)
    apply_fetched(fetched.keys[i], fetched.values[i], fetched);
}

void Machine::apply_fetched(const std::string& key, const Reply& value, const Fetched& from) {
  auto name = name_of_whole(key);
  if (!name) return;
  const auto* known = find(*name);
  if (known ? !value.is_null() && known->stored() == value.text : value.is_null()) return;
  auto gone = gone_.find(key);
  bool was_changed =
      known ? known->version() > from.since : gone != gone_.end() && gone->second > from.since;
  if (was_changed && !(known && flaws_.takes_older)) {
    if (from.since < from.at.version) mark_dirty(key);  // changed before or after it was read
    return;
  }
  if (!known && from.since < gone_floor_) return mark_dirty(key);
  ++counters_.repairs;
  changed_ = true;
  if (value.is_null())
    erase(*name, from.at.version);
  else
    set(*name, value.text, from.at.version);
}

std::optional<Machine::Name> Machine::name_of(std::string_view key) const {
  for (std::size_t type = 0; type < terms_.types.size(); ++type)
    if (key.starts_with(terms_.types[type].folder))
      return Name{type, key.substr(terms_.types[type].folder.size())};
  return {};
}

std::optional<Machine::Name> Machine::name_of_whole(std::string_view key) const {
  if (!key.starts_with(terms_.prefix)) return {};
  return name_of(key.substr(terms_.prefix.size()));
}

void Machine::set(const Name& name, std::string_view stored, Version version) {
  const auto& merge = terms_.types[name.type].merge;
  if (!merge) {
    tables_[name.type].put(Entity::create(name.id, stored, version), edit_);
    return;
  }
  const auto* known = find(name);
  if (!known && loading_) known = published_->find(name.type, name.id);
  std::optional<std::string_view> local;
  if (known) local = known->value();
  auto merged = merge(local, stored);
  auto entity = merged == stored ? Entity::create(name.id, stored, version)
                                 : Entity::create(name.id, merged, version, stored);
  tables_[name.type].put(std::move(entity), edit_);
}

void Machine::erase(const Name& name, Version version) {
  tables_[name.type].erase(name.id, edit_);
  if (!has_fetches()) return;
  if (gone_.size() >= most_gone) {
    gone_.clear();
    gone_floor_ = version;
  }
  gone_[terms_.prefix + terms_.types[name.type].folder + std::string(name.id)] = version;
}

void Machine::mark_dirty(std::string key) {
  if (phase_ == MirrorPhase::cold) return;
  if (dirty_.size() >= most_dirty) {  // the comparison finds them
    dirty_.clear();
    dirty_order_.clear();
    hurries_ = true;
    compare_at_ = {};
    return;
  }
  if (dirty_.insert(key).second) dirty_order_.push_back(std::move(key));
}

void Machine::on_digest(const Request& request, const Reply& reply) {
  std::string values;
  for (const auto& key : request.words) {
    seen_.insert(std::hash<std::string_view>{}(key));
    auto name = name_of_whole(key);
    const auto* known = name ? find(*name) : nullptr;
    if (known)
      fmt::format_to(std::back_inserter(values), "{}:{}", known->stored().size(), known->stored());
    else
      values += '-';
  }
  if (reply.text == sha1(values)) return;
  for (const auto& key : request.words) mark_dirty(key);
}

void Machine::end_compare(Clock::time_point now) {
  for (std::size_t type = 0; type < tables_.size(); ++type)
    tables_[type].each([&](const Entity& entity) {
      if (entity.version() > compared_from_) return;  // it may be newer than its page
      auto key = terms_.prefix + terms_.types[type].folder + std::string(entity.id());
      if (!seen_.contains(std::hash<std::string_view>{}(key))) mark_dirty(std::move(key));
    });
  hurries_ = false;
  restart_compare(now + compare_rest());
}

// --- intentions ----------------------------------------------------------------------------------

std::optional<Request> Machine::next(Clock::time_point now) {
  if (auto request = next_write(now)) return request;
  // The server works on the next batch while we apply this one and prepare the one after.
  if (auto entry = std::exchange(written_, {})) on_own(now, *std::move(entry));
  outbox_.prepare();
  if (std::exchange(diverged_, false)) rewritten(now, {});
  if (phase_ == MirrorPhase::cold || now < retry_at_) return {};
  if (phase_ == MirrorPhase::resync && now >= resync_at_) begin_load(now);
  if (phase_ == MirrorPhase::tailing && now >= behind_until_) begin_catch_up();
  if (auto request = next_tail(now)) return request;
  switch (phase_) {
    case MirrorPhase::snapshot:
      return next_load(now);
    case MirrorPhase::catch_up:
      return next_log(now);
    case MirrorPhase::tailing:
      if (auto request = next_fetch(now)) return request;
      return next_compare(now);
    default:
      return {};
  }
}

Clock::time_point Machine::wake_at() const {
  auto at = Clock::time_point::max();
  if (outbox_.waiting() > 0 && !writes_) at = write_at_;
  auto reads = Clock::time_point::max();
  if (phase_ == MirrorPhase::resync) reads = resync_at_;
  if (phase_ == MirrorPhase::subscribed && !asks_tail_) reads = retry_at_;
  if (phase_ == MirrorPhase::snapshot && (can_scan() || can_load() || must_ask_place()))
    reads = retry_at_;
  if (phase_ == MirrorPhase::catch_up && (!asks_log_ || log_page_)) reads = retry_at_;
  if (phase_ == MirrorPhase::tailing) {
    reads = behind_until_;
    if (!asks_tail_ && !flaws_.never_checks_tail) reads = std::min(reads, tail_at_);
    if (!asks_page_ && !asks_place_) reads = std::min(reads, compare_at_);
    if (!dirty_.empty() && fetches_ < pace_.flights()) reads = retry_at_;
  }
  if (reads != Clock::time_point::max()) at = std::min(at, std::max(reads, retry_at_));
  return at;
}

void Machine::publish() {
  if (loading_) return;
  if (!std::exchange(changed_, false) && published_->version() == position_.version)
    return published_->confirm(fresh_at_);
  published_ = std::make_shared<Snapshot>(tables_, position_.version, fresh_at_);
  ++edit_;
  told_.reset();
}

Request Machine::ask(Clock::time_point now, Kind kind, std::vector<std::string> words) const {
  return {kind,        nullptr, std::move(words), {}, {}, run_, now, position_.version, 0,
          connection_, round_};
}

std::optional<Request> Machine::next_write(Clock::time_point now) {
  if (writes_ || now < write_at_) return {};
  auto write = outbox_.next(std::max(epoch_, position_.version.epoch));
  if (!write) return {};
  writes_ = true;
  auto request = ask(now, Kind::write, std::move(write->keys));
  request.script = &scripts::write;
  request.args = std::move(write->args);
  return request;
}

std::optional<Request> Machine::next_tail(Clock::time_point now) {
  bool is_first = phase_ == MirrorPhase::subscribed;
  bool is_due = phase_ == MirrorPhase::tailing && now >= tail_at_ && !flaws_.never_checks_tail;
  if (asks_tail_ || !(is_first || is_due)) return {};
  asks_tail_ = true;
  return ask(now, Kind::tail, {"HGET", terms_.head_key(), "tail"});
}

bool Machine::must_ask_place() const {
  return is_clustered_ && !asks_place_ && (!place_ || is_loaded());
}
bool Machine::can_scan() const {
  return !scanned_ && !asks_page_ && pages_.size() < most_pages && (place_ || !is_clustered_);
}
bool Machine::can_load() const {
  return !pages_.empty() && fetches_ < most_fetches(place_ && place_->moves());
}

std::optional<Request> Machine::next_load(Clock::time_point now) {
  if (must_ask_place()) return ask_place(now);
  if (can_scan()) return ask_scan(now, terms_.load_page);
  if (!can_load()) return {};
  bool one_by_one = place_ && place_->moves();
  auto keys = std::move(pages_.front());
  pages_.pop_front();
  if (one_by_one && keys.size() > 1) {
    std::vector<std::string> one{std::move(keys.back())};
    keys.pop_back();
    pages_.push_front(std::exchange(keys, std::move(one)));
  }
  bool is_plain = one_by_one || expects_little(keys.size());
  return ask_values(now, Kind::load, std::move(keys), is_plain ? By::plain : By::script);
}

bool Machine::expects_little(std::size_t values) const {
  return can_ask_plainly() && loaded_values_ >= enough_values &&
         loaded_bytes_ / loaded_values_ * values <= little;
}

Request Machine::ask_place(Clock::time_point now) {
  asks_place_ = true;
  return ask(now, Kind::place, {"CLUSTER", "NODES"});
}

Request Machine::ask_values(Clock::time_point now, Kind kind, std::vector<std::string> keys,
                            By how) {
  ++fetches_;
  ++own_fetches_;
  keys.insert(keys.begin(), how == By::plain ? "MGET" : terms_.head_key());
  auto request = ask(now, kind, std::move(keys));
  request.bytes = pace_.bytes();
  if (how == By::plain) return request;
  request.script = &scripts::fetch;
  request.args = {std::to_string(request.bytes)};
  return request;
}

Request Machine::ask_scan(Clock::time_point now, std::size_t count) {
  asks_page_ = true;
  auto request =
      ask(now, Kind::scan, {"SCAN", cursor_, "MATCH", pattern_, "COUNT", std::to_string(count)});
  if (scans_target_) request.server = place_->target_address;
  return request;
}

std::optional<Request> Machine::next_log(Clock::time_point now) {
  if (log_page_) {
    auto last = parse_version(log_page_->entries.back().items[0].text);
    if (last && !asks_log_) return ask_log(now, *last);
    apply_page(now, *std::exchange(log_page_, {}));
    return next(now);
  }
  if (asks_log_) return {};
  if (!must_probe_) return ask_log(now, position_.version);
  asks_log_ = true;
  return ask(now, Kind::probe,
             {"XREVRANGE", terms_.log_key(), to_string(position_.version), "-", "COUNT", "1"});
}

Request Machine::ask_log(Clock::time_point now, Version after) {
  asks_log_ = true;
  ++after.sequence;
  auto first = to_string(after), count = std::to_string(log_page);
  auto request = ask(now, Kind::catch_up, {terms_.log_key()});
  request.bytes = pace_.bytes();
  request.position = target_;
  if (plain_log_pages_ > 0 && can_ask_plainly()) {
    --plain_log_pages_;
    request.words = {"XRANGE", terms_.log_key(), first, "+", "COUNT", count};
    return request;
  }
  request.script = &scripts::follow;
  request.args = {first, count, std::to_string(request.bytes)};
  return request;
}

std::optional<Request> Machine::next_fetch(Clock::time_point now) {
  bool one_by_one = now < one_by_one_until_;
  if (dirty_.empty() || fetches_ >= most_fetches(one_by_one)) return {};
  std::vector<std::string> keys;
  while (!dirty_order_.empty() && keys.size() < (one_by_one ? 1 : fetch_page)) {
    dirty_.erase(dirty_order_.front());
    keys.push_back(std::move(dirty_order_.front()));
    dirty_order_.pop_front();
  }
  return ask_values(now, Kind::fetch, std::move(keys), one_by_one ? By::plain : By::script);
}

std::optional<Request> Machine::next_compare(Clock::time_point now) {
  if (asks_page_ || asks_place_ || now < compare_at_) return {};
  if (is_clustered_ && !place_) return ask_place(now);
  if (scanned_ && pages_.empty()) {
    end_compare(now);
    return {};
  }
  if (!std::exchange(compares_, true)) compared_from_ = position_.version;
  compare_at_ = hurries_ ? now : now + terms_.compare_pause;
  if (pages_.empty()) return ask_scan(now, compare_page);
  asks_page_ = true;
  auto request = ask(now, Kind::digest, take_compared());
  request.script = &scripts::digest;
  return request;
}

// Redis reads a whole page at once, so large values make it short.
std::vector<std::string> Machine::take_compared() {
  auto page = std::move(pages_.front());
  pages_.pop_front();
  std::size_t count = 0;
  for (std::size_t bytes = 0; count < page.size() && bytes < Pace::most_bytes; ++count) {
    auto name = name_of_whole(page[count]);
    const auto* known = name ? find(*name) : nullptr;
    if (known) bytes += known->stored().size();
  }
  auto rest = page.begin() + static_cast<std::ptrdiff_t>(count);
  if (rest != page.end())
    pages_.emplace_front(std::make_move_iterator(rest), std::make_move_iterator(page.end()));
  page.erase(rest, page.end());
  return page;
}

}  // namespace warren::mirror
