#include "primitives/mirror/machine.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>

#include "primitives/mirror/scripts.h"

namespace warren::mirror {

namespace {

using redis::Reply;
using Kind = Request::Kind;

constexpr std::size_t log_page = 1000;   // entries
constexpr std::size_t load_page = 1000;  // keys that SCAN looks at
constexpr std::size_t fetch_page = 200;
constexpr std::size_t compare_page = 500;
constexpr int most_fetches = 4;
constexpr std::size_t most_held = 10'000, most_held_bytes = 8u << 20;
constexpr std::size_t most_lost = 64, most_checks = 16, most_recent = 1000;
constexpr std::size_t most_dirty = 100'000, most_parked = 64, most_gone = 4096;
// A push is given this time to come before the log is read for it.
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

// Before the first entry there is none.
std::optional<Tail> tail_of(const Reply& reply) {
  return reply.is_null() ? Tail{} : parse_tail(reply.text);
}

Clock::duration backoff(int failures, double unit) {
  auto most = std::min<Clock::duration>(1s, 10ms * (1 << std::min(failures, 7)));
  return std::chrono::duration_cast<Clock::duration>(most * (0.5 + unit / 2));
}

// The server cannot now; the same batch may succeed later.
bool is_passing(const Error& error) {
  if (error.code != Errc::refused)
    return error.code != Errc::denied && error.code != Errc::invalid &&
           error.code != Errc::protocol;
  for (std::string_view word : {"equal or smaller", "NOREPLICAS", "OOM", "MISCONF", "READONLY"})
    if (error.what.find(word) != std::string::npos) return true;
  return false;
}

}  // namespace

Machine::Machine(MirrorTerms terms, std::string writer, std::function<double()> random, Flaws flaws)
    : terms_(std::move(terms)),
      pattern_(escaped(terms_.prefix) + "*"),
      random_(std::move(random)),
      flaws_(flaws),
      outbox_(terms_, std::move(writer)),
      tables_(terms_.types.size()),
      published_(std::make_shared<Snapshot>(tables_, Version{}, Clock::time_point{})) {}

// --- facts ---------------------------------------------------------------------------------------

void Machine::on_subscribed(Clock::time_point now) {
  if (phase_ == MirrorPhase::cold) begin_load(now);
}

void Machine::on_gap(Clock::time_point now) {
  if (phase_ == MirrorPhase::cold || flaws_.ignores_gaps) return;
  if (phase_ == MirrorPhase::tailing) begin_catch_up();
  hurries_ = true;
  if (!loading_) restart_compare(now);  // otherwise when all is read
}

void Machine::on_connected(Clock::time_point now, std::uint64_t epoch) {
  epoch_ = epoch;
  ++server_;
  moved_ = true;
  tail_at_ = retry_at_ = write_at_ = now;
  if (phase_ == MirrorPhase::snapshot) begin_load(now);  // a cursor means nothing to another server
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

void Machine::on_reply(Clock::time_point now, Request request, const Result<Reply>& reply) {
  if (reply) heard_at_ = now;
  if (request.kind == Kind::write) return on_write_reply(now, std::move(request), reply);
  if (request.run != run_) return;
  switch (request.kind) {
    case Kind::tail:
      asks_tail_ = false;
      break;
    case Kind::catch_up:
    case Kind::probe:
      asks_log_ = false;
      break;
    case Kind::scan:
    case Kind::digest:
      asks_page_ = false;
      break;
    case Kind::load:
    case Kind::fetch:
      --fetches_;
      break;
    case Kind::write:
      break;
  }
  if (!reply) return on_failure(now, std::move(request));
  failures_ = 0;
  switch (request.kind) {
    case Kind::tail:
      return on_tail(now, request, *reply);
    case Kind::catch_up:
      return on_log(now, request, *reply);
    case Kind::probe:
      return on_probe(now, *reply);
    case Kind::scan:
      return on_scan(now, *reply);
    case Kind::fetch:
      return on_fetched(now, std::move(request), *reply);
    case Kind::load:
      return on_loaded(now, request, *reply);
    case Kind::digest:
      return on_digest(request, *reply);
    case Kind::write:
      return;
  }
}

void Machine::on_failure(Clock::time_point now, Request request) {
  retry_at_ = now + backoff(failures_++, random_());
  auto& words = request.words;
  if (request.kind == Kind::load || request.kind == Kind::fetch) words.erase(words.begin());
  if (request.kind == Kind::load || request.kind == Kind::digest)
    pages_.push_back(std::move(words));
  else if (request.kind == Kind::fetch)
    for (auto& key : words) mark_dirty(std::move(key));
}

void Machine::on_write_reply(Clock::time_point now, Request request, const Result<Reply>& reply) {
  writes_ = false;
  auto version =
      reply && !reply->items.empty() ? parse_version(reply->items[0].text) : std::nullopt;
  if (version) {
    write_failures_ = 0;
    ++counters_.writes;
    auto part = [&](std::size_t i) {
      return reply->items.size() > i ? reply->items[i].text : std::string();
    };
    written_ = outbox_.on_written(*version, part(2), part(1));
    return;
  }
  Error error = reply ? Error{Errc::protocol, "the script answered " + redis::to_string(*reply)}
                      : reply.error();
  if (!is_passing(error)) {
    ++counters_.refused_writes;
    return outbox_.on_refused(error);
  }
  ++counters_.write_retries;
  outbox_.on_failed({std::move(request.words), std::move(request.args)});
  write_at_ = now + backoff(write_failures_++, random_());
  tail_at_ = now;  // an old epoch: the history that we do not know yet says which one it is
}

// Our own entry is in the log: we need not wait to be told. If we cannot apply it yet, we remember
// that it must come.
void Machine::on_own(Clock::time_point now, Entry entry) {
  Position at = entry.at;
  for (auto& range : lost_)  // the place is taken again, in the new history
    if (range.after < at.version && at.version <= range.until) range.after = at.version;
  if (!entry.before.empty()) take(now, std::move(entry));
  if (has(at) == true && !loading_) return;
  tail_at_ = now;
  // While we talk to one server, the last one stands for all before it.
  if (!own_.empty() && own_.back().server == server_) own_.pop_back();
  own_.push_back({std::move(at), server_, now});
}

// --- the log -------------------------------------------------------------------------------------

void Machine::on_tail(Clock::time_point now, const Request& request, const Reply& reply) {
  auto tail = tail_of(reply);
  tail_at_ = request.sent_at + terms_.tail_check;
  if (!tail) {
    ++counters_.malformed;
    return begin_resync(now);
  }
  bool is_other = !born_.empty() && !tail->born.empty() && tail->born != born_;
  if (!tail->born.empty()) born_ = tail->born;
  auto at = std::move(tail->at);
  if (phase_ == MirrorPhase::subscribed) {
    born_ = tail->born;  // what begins after an empty log is no other history
    if (is_other && ready_ && !told_) tell_rewrite({}, published_->version(), true);
    position_ = at;
    target_ = at.version;
    recent_ = {at};
    checks_ = {{std::move(at), request.sent_at}};
    phase_ = MirrorPhase::snapshot;
    return;
  }
  if (is_other) return rewritten(now, {});
  if (at.version < request.position) return rewritten(now, at.version);
  auto version = at.version;
  checks_.push_back({std::move(at), request.sent_at});
  if (checks_.size() > most_checks) checks_.pop_front();
  reach(now, version);
}

// Whether this is part of what was applied; nothing when it is too new or too long ago to tell.
std::optional<bool> Machine::has(const Position& at) const {
  if (at.version > position_.version || recent_.empty() || at.version < recent_.front().version)
    return {};
  auto found = std::ranges::lower_bound(recent_, at.version, {}, &Position::version);
  return found != recent_.end() && *found == at;
}

// Redis is known to be at `target`; we hear of it by push, or else read the log.
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
    if (loading_) continue;
    moved_ = false;
    std::erase_if(own_, [&](const Own& own) {
      return own.at.version <= check.tail.version && own.server == server_ &&
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
    // Known already; unless history is another one now.
    if (has(entry.at) == false || entry.before == position_.stamp) tail_at_ = now;
    return;
  }
  hold(std::move(entry));
  begin_catch_up();
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

// All up to here is loaded. Of what we were told is written it has everything, unless that was said
// by another server: then we do not know.
void Machine::forget_own() {
  std::erase_if(own_, [&](const Own& own) {
    if (own.at.version > position_.version) return false;
    bool is_other = has(own.at) == false;
    if (is_other || own.server != server_) tell_rewrite({}, own.at.version, is_other);
    return true;
  });
}

// What we were told is written, and what history has instead.
void Machine::expect_own(const Position& at) {
  std::erase_if(own_, [&](const Own& own) {
    if (own.at.version <= position_.version || own.at.version > at.version) return false;
    if (own.at != at) tell_rewrite(position_.version, own.at.version, true);
    return true;
  });
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
      else
        erase(*name, entry.at.version);
    }
  if (entry.before == Position().stamp) born_ = entry.at.stamp;
  position_ = entry.at;
  recent_.push_back(entry.at);
  if (recent_.size() > most_recent) recent_.pop_front();
  changed_ = true;
  ++counters_.applied;
  confirm();
  while (!parked_.empty() && parked_.front().version <= position_.version) {
    apply_fetched(parked_.front());
    parked_.pop_front();
  }
}

void Machine::begin_catch_up() {
  phase_ = MirrorPhase::catch_up;
  behind_until_ = Clock::time_point::max();
  must_probe_ = false;
  ++counters_.catch_ups;
}

void Machine::on_log(Clock::time_point now, const Request& request, const Reply& reply) {
  for (const auto& item : reply.items) {
    auto entry = entry_of(item);
    if (!entry) ++counters_.malformed;
    if (!entry || entry->at.version <= position_.version) continue;
    must_probe_ = !follows(*entry);
    if (must_probe_) return;
    if (!loading_) moved_ = false;
    apply(*entry);
  }
  if (reply.items.size() == log_page) return;
  must_probe_ = position_.version < request.position;
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
    }
  }
  held_bytes_ = 0;
  phase_ = MirrorPhase::tailing;
  tail_at_ = now;
  reach(now, target_);
  if (!loading_) return;
  forget_own();
  loading_ = false;
  restart_compare(hurries_ ? now : now + compare_rest());
  bool goes_back = position_.version < published_->version();
  if (ready_ && (moved_ || goes_back) && !told_) tell_rewrite({}, published_->version(), false);
  moved_ = false;
  ready_ = changed_ = true;
}

// What we have is not in the log, or what follows it is not.
void Machine::on_probe(Clock::time_point now, const Reply& reply) {
  must_probe_ = false;
  auto nearest = reply.items.empty() ? std::nullopt : entry_of(reply.items[0]);
  if (nearest && nearest->at != position_) return rewritten(now, nearest->at.version);
  if (nearest) moved_ = false;
  begin_resync(now);
}

void Machine::rewritten(Clock::time_point now, Version after) {
  if (ready_ && !told_) tell_rewrite(after, published_->version(), true);
  begin_resync(now);
}

void Machine::tell_rewrite(Version after, Version until, bool certain) {
  ++counters_.rewrites;
  if (loading_) until = std::max(until, published_->version());
  rewrites_.push_back({after, until, certain});
  lost_.push_back(rewrites_.back());
  if (lost_.size() > most_lost) lost_.pop_front();
  told_ = true;
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
  phase_ = MirrorPhase::resync;
  loading_ = true;
  ++run_;
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
  asks_tail_ = asks_log_ = asks_page_ = must_probe_ = false;
  fetches_ = 0;
  behind_until_ = Clock::time_point::max();
  diverged_ = false;
  tables_ = std::vector<Table>(terms_.types.size());
  ++edit_;
  held_.clear();
  held_bytes_ = 0;
  checks_.clear();
  parked_.clear();
  gone_.clear();
  gone_floor_ = {};
  restart_compare(now);
}

void Machine::restart_compare(Clock::time_point when) {
  compares_ = scanned_ = false;
  cursor_ = "0";
  pages_.clear();
  seen_.clear();
  compare_at_ = when;
}

void Machine::on_scan(Clock::time_point now, const Reply& reply) {
  if (reply.items.size() != 2) return begin_resync(now);
  cursor_ = reply.items[0].text;
  scanned_ = cursor_ == "0";
  std::vector<std::string> page;
  for (const auto& key : reply.items[1].items)
    if (name_of_whole(key.text)) page.push_back(key.text);
  if (!page.empty()) pages_.push_back(std::move(page));
  if (phase_ == MirrorPhase::snapshot && scanned_ && pages_.empty() && fetches_ == 0)
    begin_catch_up();
}

// The values are at least as new as the position, and what the log says of later changes is
// replayed over them. What older peers change meanwhile is notified, and fetched after that.
void Machine::on_loaded(Clock::time_point now, const Request& request, const Reply& reply) {
  if (reply.items.size() + 1 != request.words.size()) return begin_resync(now);
  for (std::size_t i = 0; i < reply.items.size(); ++i)
    if (auto name = name_of_whole(request.words[i + 1]); name && !reply.items[i].is_null())
      set(*name, reply.items[i].text, position_.version);
  if (scanned_ && pages_.empty() && fetches_ == 0) begin_catch_up();
}

void Machine::on_fetched(Clock::time_point now, Request request, const Reply& reply) {
  auto tail = reply.items.empty() ? std::nullopt : tail_of(reply.items[0]);
  if (!tail || reply.items.size() != request.words.size()) return begin_resync(now);
  auto version = tail->at.version;
  Fetched fetched{version, std::move(request.words), reply.items};
  if (fetched.version <= position_.version) {
    apply_fetched(fetched);
  } else if (parked_.size() < most_parked) {
    parked_.push_back(std::move(fetched));
    reach(now, version);
  } else {
    for (std::size_t i = 1; i < fetched.keys.size(); ++i) mark_dirty(std::move(fetched.keys[i]));
  }
  if (fetches_ == 0 && parked_.empty()) {
    gone_.clear();
    gone_floor_ = {};
  }
}

void Machine::apply_fetched(const Fetched& fetched) {
  for (std::size_t i = 1; i < fetched.keys.size(); ++i)
    apply_fetched(fetched.keys[i], fetched.values[i], fetched.version);
}

void Machine::apply_fetched(const std::string& key, const Reply& value, Version version) {
  auto name = name_of_whole(key);
  if (!name) return;
  const auto* known = find(*name);
  if (known && known->version() > version) return;
  if (!known) {
    auto gone = gone_.find(key);
    if (value.is_null() || (gone != gone_.end() && gone->second > version)) return;
    if (version < gone_floor_) return mark_dirty(key);
  } else if (!value.is_null() && known->stored() == value.text) {
    return;
  }
  ++counters_.repairs;
  changed_ = true;
  if (value.is_null())
    erase(*name, version);
  else
    set(*name, value.text, version);
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
  if (fetches_ == 0 && parked_.empty()) return;
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
  // The server is busy with the next batch while we apply this one and load the one after it.
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
  if (phase_ == MirrorPhase::snapshot && (can_scan() || can_load())) reads = retry_at_;
  if (phase_ == MirrorPhase::catch_up && !asks_log_) reads = retry_at_;
  if (phase_ == MirrorPhase::tailing) {
    reads = behind_until_;
    if (!asks_tail_ && !flaws_.never_checks_tail) reads = std::min(reads, tail_at_);
    if (!asks_page_) reads = std::min(reads, compare_at_);
    if (!dirty_.empty() && fetches_ < most_fetches) reads = retry_at_;
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
  told_ = false;
}

Request Machine::ask(Clock::time_point now, Kind kind, std::vector<std::string> words) const {
  return {kind, nullptr, std::move(words), {}, run_, now, position_.version};
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

bool Machine::can_scan() const { return !scanned_ && !asks_page_ && pages_.size() < most_fetches; }
bool Machine::can_load() const { return !pages_.empty() && fetches_ < most_fetches; }

std::optional<Request> Machine::next_load(Clock::time_point now) {
  if (can_scan()) return ask_scan(now, load_page);
  if (!can_load()) return {};
  auto words = std::move(pages_.front());
  pages_.pop_front();
  words.insert(words.begin(), "MGET");
  ++fetches_;
  return ask(now, Kind::load, std::move(words));
}

Request Machine::ask_scan(Clock::time_point now, std::size_t count) {
  asks_page_ = true;
  return ask(now, Kind::scan, {"SCAN", cursor_, "MATCH", pattern_, "COUNT", std::to_string(count)});
}

std::optional<Request> Machine::next_log(Clock::time_point now) {
  if (asks_log_) return {};
  asks_log_ = true;
  if (must_probe_)
    return ask(now, Kind::probe,
               {"XREVRANGE", terms_.log_key(), to_string(position_.version), "-", "COUNT", "1"});
  Version from = position_.version;
  ++from.sequence;
  auto request =
      ask(now, Kind::catch_up,
          {"XRANGE", terms_.log_key(), to_string(from), "+", "COUNT", std::to_string(log_page)});
  request.position = target_;
  return request;
}

std::optional<Request> Machine::next_fetch(Clock::time_point now) {
  if (dirty_.empty() || fetches_ == most_fetches) return {};
  std::vector<std::string> words{terms_.head_key()};
  while (!dirty_order_.empty() && words.size() <= fetch_page) {
    dirty_.erase(dirty_order_.front());
    words.push_back(std::move(dirty_order_.front()));
    dirty_order_.pop_front();
  }
  ++fetches_;
  auto request = ask(now, Kind::fetch, std::move(words));
  request.script = &scripts::fetch;
  return request;
}

std::optional<Request> Machine::next_compare(Clock::time_point now) {
  if (asks_page_ || now < compare_at_) return {};
  if (scanned_ && pages_.empty()) {
    end_compare(now);
    return {};
  }
  if (!std::exchange(compares_, true)) compared_from_ = position_.version;
  compare_at_ = hurries_ ? now : now + terms_.compare_pause;
  if (pages_.empty()) return ask_scan(now, compare_page);
  asks_page_ = true;
  auto request = ask(now, Kind::digest, std::move(pages_.front()));
  pages_.pop_front();
  request.script = &scripts::digest;
  return request;
}

}  // namespace warren::mirror
