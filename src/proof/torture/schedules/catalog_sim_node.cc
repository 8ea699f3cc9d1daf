#include "proof/torture/schedules/catalog_sim_node.h"

#include <array>
#include <charconv>

#include "primitives/catalog/scripts.h"
#include "redis/resp/refusal.h"

namespace warren::torture {

namespace {

using history::CatalogEvent;
using history::RowId;
using redis::Reply;
using sim::Words;

constexpr auto planted_delay = 50ms;
constexpr RowId passing_rows = 1;

// One place in a script that a mistake replaces.
struct Spoiling {
  CatalogMistake mistake;
  std::string_view what, with;
};
constexpr Spoiling spoilings[] = {
    {CatalogMistake::claim_ignores_lease,
     "if owner ~= '' and owner ~= session and lives(owner) then", "if false then"},
    {CatalogMistake::epoch_not_raised,
     "return format('%.0f', math.max(counter + 1, removed + 1, now))", "return counter"},
    {CatalogMistake::counter_regresses, "math.max(counter + 1, removed + 1, now)", "counter + 1"},
    {CatalogMistake::unchecked_release,
     "if owner ~= session or not is_same_epoch or not lasts(lease) then return {0} end",
     "if what ~= 'release' and (owner ~= session or not is_same_epoch or not lasts(lease)) "
     "then return {0} end"},
    {CatalogMistake::unchecked_epoch,
     "if owner ~= session or not is_same_epoch or not lasts(lease) then return {0} end",
     "if owner ~= session or not (is_same_epoch or what == 'write') or not lasts(lease) "
     "then return {0} end"},
    {CatalogMistake::change_skipped, "local upto = since + #entries",
     "local upto = since + #entries + 1"},
    {CatalogMistake::removal_not_told, "call('HDEL', rows, key)\n      tell(key)",
     "call('HDEL', rows, key)"},
    {CatalogMistake::trimming_not_told, "floor + spare", "floor"},
    {CatalogMistake::failover_not_told, "or ARGV[6] ~= epoch", ""},
    {CatalogMistake::offers_what_is_owned, "if owner ~= '' then\n    call('ZADD'",
     "if false then\n    call('ZADD'"},
    {CatalogMistake::place_forgotten, "placed + #entries)", "placed + #entries + 1)"},
    {CatalogMistake::keeps_rows_of_the_dead, "local left = 200", "local left = 0"},
    {CatalogMistake::wait_never_ends,
     "call('ZRANGEBYSCORE', places, waiting, waiting + now_ms, 'LIMIT', 0, 200)", "{}"},
};
// So few that a schedule exceeds it.
constexpr std::pair<std::string_view, std::string_view> kept_changes{"most_changes = 60000",
                                                                     "most_changes = 20"};

redis::Script spoilt(std::string source, const redis::Script& script, CatalogMistake mistake,
                     bool& is_found) {
  source += script.source();
  source.replace(source.find(kept_changes.first), kept_changes.first.size(), kept_changes.second);
  for (const auto& place : spoilings) {
    auto at = place.mistake == mistake ? source.find(place.what) : source.npos;
    if (at == source.npos) continue;
    source.replace(at, place.what.size(), place.with);
    is_found = true;
  }
  return {script.name(), source};
}

CatalogScripts made_with(CatalogMistake mistake) {
  bool is_found = false;
  const auto& first = scripts::catalog.source();
  const auto places = first + scripts::catalog_places.source();
  CatalogScripts made{spoilt(first, scripts::catalog_node, mistake, is_found),
                      spoilt(first, scripts::catalog_claim, mistake, is_found),
                      spoilt(first, scripts::catalog_owner, mistake, is_found),
                      spoilt(places, scripts::catalog_rows, mistake, is_found),
                      spoilt(places, scripts::catalog_look, mistake, is_found)};
  bool is_of_scripts = mistake != CatalogMistake::none && mistake < CatalogMistake::believes_longer;
  ensure(is_found == is_of_scripts, "the scripts have what is to be spoilt");
  return made;
}

std::string_view next_word(std::string_view& rest, char separator) {
  auto end = std::min(rest.find(separator), rest.size());
  auto word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

template <class T>
T number_in(std::string_view text) {
  T number{};
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Key, record, key, record, …
std::vector<Row> rows_in(const std::vector<Reply>& items, std::size_t from) {
  std::vector<Row> rows;
  for (auto i = from; i + 1 < items.size(); i += 2)
    if (auto row = parse_record(items[i].text, items[i + 1].text)) rows.push_back(*std::move(row));
  return rows;
}

Words words_of(const Claim& claim) {
  return {claim.key, claim.session, std::to_string(claim.epoch.epoch),
          std::to_string(claim.epoch.counter)};
}

Result<> lost_if(bool is_lost) {
  if (is_lost) return fail(Errc::lease_lost, "refused");
  return ok;
}

}  // namespace

const CatalogScripts& scripts_with(CatalogMistake mistake) {
  static const auto none = made_with(CatalogMistake::none);
  if (mistake == CatalogMistake::none || mistake >= CatalogMistake::believes_longer) return none;
  // Kept, because a server remembers its scripts by their hashes.
  thread_local std::map<CatalogMistake, CatalogScripts> made;
  auto found = made.find(mistake);
  if (found == made.end()) found = made.emplace(mistake, made_with(mistake)).first;
  return found->second;
}

std::optional<Row> parse_record(std::string key, std::string_view record) {
  Row row{.key = std::move(key)};
  auto owning = next_word(record, '\0');
  auto state = parse_row_state(next_word(owning, ' '));
  if (!state) return std::nullopt;
  row.state = *state;
  row.owner = next_word(owning, ' ');
  row.epoch.epoch = number_in<std::uint64_t>(next_word(owning, ' '));
  row.epoch.counter = number_in<std::uint64_t>(next_word(owning, ' '));
  auto numbers = next_word(record, '\0');
  row.rank = number_in<std::int64_t>(next_word(numbers, ' '));
  row.attempts = number_in<std::uint32_t>(next_word(numbers, ' '));
  row.error = next_word(record, '\0');
  row.spec = next_word(record, '\0');
  row.note = record;
  return row;
}

SimulatedNode::SimulatedNode(CatalogWorld& all, sim::Connection& connection, history::ProcessId id)
    : all_(all),
      id_(id),
      connection_(connection),
      machine_(simulated_ttl +
               (all.mistake == CatalogMistake::believes_longer ? planted_delay : 0ms)),
      keeper_(all.history, id) {
  connection_.on_message = [this](const sim::Message&) { follow_soon(); };
  connection_.on_settled = [this] { follow_soon(); };
  connection_.on_gap = [this] {
    bool is_ignored = all_.mistake == CatalogMistake::ignores_gap ||
                      all_.mistake == CatalogMistake::failover_not_told;
    if (!is_ignored) ++gaps_;
    follow_soon();
  };
}

void SimulatedNode::begin_life() {
  connection_.ssubscribe(all_.keys[1]);
  pump();
  follow();
  connection_.after(0ms, [this] { add_rows(); });
  connection_.after(all_.world.between(5ms, 30ms), [this] { act(); });
  connection_.after(all_.world.between(5ms, 30ms), [this] { serve(); });
}

void SimulatedNode::die() {
  all_.history.note({.at = now(), .kind = CatalogEvent::Kind::killed, .process = id_});
  connection_.close();
}

void SimulatedNode::sleep(Clock::duration time) {
  if (now() < awake_at_) return;
  awake_at_ = now() + time;
  connection_.pause(time);
}

// As in RedisCatalog::run.
void SimulatedNode::call(const redis::Script& script, const char* what, Words words, Answer answer,
                         redis::Lane lane) {
  auto epoch = all_.mistake == CatalogMistake::counter_regresses ? 0 : connection_.epoch();
  Words args{std::to_string(epoch), what};
  std::ranges::move(words, std::back_inserter(args));
  auto options = redis::CallOptions().idempotent().lane(lane);
  connection_.call(
      sim::words_of(script, all_.keys, std::move(args)), now() + simulated_ttl / 3,
      [this, answer = std::move(answer)](const Result<Reply>& reply) {
        check(reply);
        answer(reply);
      },
      options);
}

// As in RedisCatalog::run_granting.
void SimulatedNode::call_granting(const redis::Script& script, const char* what, Words words,
                                  Answer answer) {
  auto again = words;
  if (again.back() != "anew") again.emplace_back("anew");
  call(script, what, std::move(words),
       [this, &script, what, again = std::move(again), answer = std::move(answer),
        epoch = connection_.epoch()](const Result<Reply>& reply) {
         bool is_granted = reply && reply->items.at(0).number == 1;
         if (!is_granted || connection_.epoch() == epoch) return answer(reply);
         call_granting(script, what, again, answer);
       });
}

// Errors of real servers have other words. These are from our scripts, or from the model.
void SimulatedNode::check(const Result<Reply>& reply) const {
  if (!reply && (redis::said(reply.error(), "ERR") || redis::said(reply.error(), "WRONGTYPE")))
    all_.found("the scripts", reply.error().what);
}

void SimulatedNode::pump() {
  while (auto intent = machine_.next(now())) {
    if (*intent == NodeMachine::Intent::join)
      join();
    else
      beat();
  }
  look_at_lease();
  set_timer();
}

void SimulatedNode::join() {
  auto session = fmt::format("n{}/{:012x}", id_, (id_ << 16) + ++joins_);
  Words words{"", session, std::to_string(simulated_ttl.count()), "{}"};
  call(
      all_.scripts.node, "join", std::move(words),
      [this, session](const Result<Reply>& reply) {
        Result<NodeSession> joined = session;
        if (!reply) joined = std::unexpected(reply.error());
        machine_.on_joined(now(), std::move(joined));
        pump();
      },
      redis::Lane::renewal);
}

void SimulatedNode::beat() {
  Words words{"", machine_.session(), "{}"};
  call(
      all_.scripts.node, "beat", std::move(words),
      [this](const Result<Reply>& reply) {
        Result<> answer = reply ? lost_if(reply->number == 0) : std::unexpected(reply.error());
        machine_.on_beat(now(), answer);
        pump();
      },
      redis::Lane::renewal);
}

void SimulatedNode::set_timer() {
  auto wake = machine_.wake_at();
  if (wake >= wakes_at_) return;
  wakes_at_ = wake;
  connection_.at(wake, [this, wake] {
    if (wake != wakes_at_) return;
    wakes_at_ = Clock::time_point::max();
    pump();
  });
}

void SimulatedNode::look_at_lease() {
  keeper_.on_lease(now(), machine_.session(), machine_.deadline());
}

void SimulatedNode::serve() {
  look_at_lease();
  keeper_.serve(now());
  if (all_.mistake == CatalogMistake::serves_past_lease && !keeper_.session().empty())
    keeper_.serve_regardless(now());
  connection_.after(all_.world.between(40ms, 120ms), [this] { serve(); });
}

void SimulatedNode::act() {
  if (is_still_) return;
  look_at_lease();
  if (!is_busy_ && machine_.may_claim(now())) do_something();
  auto pause = is_settling_ ? all_.world.between(30ms, 100ms) : all_.world.between(5ms, 80ms);
  connection_.after(pause, [this] { act(); });
}

void SimulatedNode::do_something() {
  if (minds_a_stray()) return;
  auto claims = keeper_.idle_claims();
  auto chance = all_.world.unit();
  bool has_some = !claims.empty();
  auto some = has_some ? claims[all_.world.below(claims.size())] : Claim{};
  if (lacks_rows() && chance < 0.5) return add_rows();
  if (is_settling_ && chance < 0.8) return look_for_work();
  if (!has_some || chance < 0.3) return look_for_work();
  if (is_settling_ || chance < 0.6) return write(some, false);
  if (chance < 0.75) return give_back(some);
  if (chance < 0.82) return hand_over(some);
  if (chance < 0.92 && !keeper_.over().empty())
    return write(keeper_.over()[all_.world.below(keeper_.over().size())], true);
  change_passing_row();
}

// Servers may have lost them.
bool SimulatedNode::lacks_rows() const {
  for (RowId row = 0; row < simulated_rows; ++row)
    if (!keeper_.knows(wanted_row(row))) return true;
  return false;
}

bool SimulatedNode::minds_a_stray() {
  for (const auto& stray : keeper_.strays()) {
    ++all_.strays;
    if (all_.mistake == CatalogMistake::keeps_strays) return false;
    if (stray.may_be_kept)
      keeper_.keep(now(), stray);
    else
      give_back(stray.claim);
    return true;
  }
  return false;
}

void SimulatedNode::add_rows() {
  Words words{"", ""};
  for (RowId row = 0; row < simulated_rows; ++row)
    for (auto& word : {wanted_row(row), std::string("0"), std::string("s")}) words.push_back(word);
  is_busy_ = true;
  call(all_.scripts.rows, "add", std::move(words), [this](auto&) { is_busy_ = false; });
}

void SimulatedNode::look_for_work() {
  is_busy_ = true;
  call(all_.scripts.look, "claimable", {"", "", "10"},
       [this, since = now()](const Result<Reply>& reply) {
         is_busy_ = false;
         if (!reply) return;
         auto rows = rows_in(reply->items, 1);
         keeper_.on_offered(now(), since, rows);
         look_at_lease();
         std::erase_if(rows, [&](const Row& row) {
           return !is_wanted(row.key) || !keeper_.is_idle(row.key) || keeper_.holds(row.key);
         });
         if (rows.empty() || !machine_.may_claim(now()) || is_still_) return;
         claim(rows[all_.world.below(rows.size())].key);
       });
}

void SimulatedNode::claim(const std::string& key) {
  is_busy_ = true;
  keeper_.begin(key);
  auto session = machine_.session();
  call_granting(all_.scripts.claim, "claim", {key, session},
                [this, key, session, since = now()](const Result<Reply>& reply) {
                  is_busy_ = false;
                  look_at_lease();
                  Result<Claim> answer = fail(Errc::unavailable, "nobody knows");
                  if (reply && reply->items.at(0).number == 1) {
                    FencingToken epoch{number_in<std::uint64_t>(reply->items.at(1).text),
                                       number_in<std::uint64_t>(reply->items.at(2).text)};
                    answer = Claim{session, key, epoch};
                  }
                  keeper_.on_claimed(now(), since, key, answer);
                  if (!reply || reply->items.at(0).number != -2) return;
                  machine_.on_lost(now(), session);
                  pump();
                });
}

void SimulatedNode::write(Claim claim, bool is_late) {
  if (!is_late) keeper_.begin(claim.key);
  is_busy_ = true;
  auto number = keeper_.next_note();
  auto words = words_of(claim);
  words.emplace_back(all_.world.chance(0.7) ? "ready" : "draining");
  words.push_back(std::to_string(number));  // grows with each write, and so gives their order
  words.push_back(std::to_string(number));
  call(all_.scripts.owner, "write", std::move(words),
       [this, claim, is_late, number, since = now()](const Result<Reply>& reply) {
         is_busy_ = false;
         look_at_lease();
         if (!is_late) keeper_.done(claim.key);
         auto answer = reply ? lost_if(reply->items.at(0).number == 0)
                             : Result<>(std::unexpected(reply.error()));
         if (reply && !answer) ++all_.writes_refused;
         keeper_.on_written(now(), since, claim, number, answer);
       });
}

void SimulatedNode::give_back(const Claim& claim) {
  keeper_.let_go(now(), claim);
  is_busy_ = true;
  auto words = words_of(claim);
  bool fails = !is_settling_ && all_.world.chance(0.3);
  words.emplace_back(fails ? "planted" : "");
  words.emplace_back(fails ? "60" : "0");
  call(all_.scripts.owner, "release", std::move(words),
       [this, claim, since = now()](const Result<Reply>& reply) {
         is_busy_ = false;
         auto answer = reply ? lost_if(reply->items.at(0).number == 0)
                             : Result<>(std::unexpected(reply.error()));
         keeper_.on_released(now(), since, claim, answer);
       });
}

void SimulatedNode::hand_over(const Claim& claim) {
  auto to = all_.some_session();
  if (to.empty() || to == claim.session) return;
  keeper_.let_go(now(), claim);
  is_busy_ = true;
  auto words = words_of(claim);
  words.push_back(to);
  call_granting(all_.scripts.owner, "hand_over", std::move(words),
                [this, claim, since = now()](const Result<Reply>& reply) {
                  is_busy_ = false;
                  Result<> answer = fail(Errc::not_found, "its lease has ended");
                  if (!reply) answer = std::unexpected(reply.error());
                  if (reply && reply->items.at(0).number >= 0)
                    answer = lost_if(reply->items.at(0).number == 0);
                  keeper_.on_released(now(), since, claim, answer);
                });
}

void SimulatedNode::change_passing_row() {
  auto key = passing_row(RowId(all_.world.below(passing_rows)));
  auto done = [this](auto&) { is_busy_ = false; };
  is_busy_ = true;
  auto chance = all_.world.unit();
  if (chance < 0.4) return call(all_.scripts.rows, "add", {"", "", key, "-9", "s"}, done);
  if (chance < 0.7) return call(all_.scripts.rows, "remove", {"", "", key}, done);
  auto spec = std::to_string(all_.world.below(1000));
  call(all_.scripts.rows, "change", {key, "", "-", "spec", "-", "0", spec}, done);
}

// Handles several changes at once.
void SimulatedNode::follow_soon() {
  if (std::exchange(will_follow_, true)) return;
  connection_.after(all_.world.between(0ms, 50ms), [this] {
    will_follow_ = false;
    follow();
  });
}

// One look after the other, as in RedisCatalog::changes.
void SimulatedNode::follow() {
  has_news_ = true;
  if (is_following_) return;
  is_following_ = true;
  ++followed_;
  has_news_ = reads_all_ = false;
  asked_ = now();
  // A server that comes back may have an older past: then its numbers mean nothing.
  gaps_when_asked_ = gaps_;
  next_position_ = gaps_ == gaps_of_position_ ? position_ : Words{"0", "0", "0"};
  look();
}

void SimulatedNode::look() {
  Words words{"", ""};
  std::ranges::copy(next_position_, std::back_inserter(words));
  words.emplace_back("500");
  call(all_.scripts.look, "changes", std::move(words),
       [this](const Result<Reply>& reply) { on_look(reply); });
}

void SimulatedNode::on_look(const Result<Reply>& reply) {
  if (!reply) return follow_later(20ms);
  const auto& items = reply->items;
  Words upto{items.at(0).text, items.at(1).text, items.at(2).text};
  if (items.size() == 4) {
    if (reads_all_) return follow_later(20ms);  // its history ended meanwhile
    reads_all_ = true;
    all_rows_.clear();
    next_position_ = std::move(upto);
    return scan("0");
  }
  auto rows = rows_in(items.at(4).items, 0);
  bool is_last = upto == next_position_;
  next_position_ = std::move(upto);
  if (!reads_all_) {
    Changes changes{.rows = std::move(rows), .removed = {}, .position = {}};
    for (const auto& key : items.at(5).items) changes.removed.push_back(key.text);
    return on_followed(std::move(changes));
  }
  for (auto& row : rows) all_rows_[row.key] = std::move(row);
  for (const auto& key : items.at(5).items) all_rows_.erase(key.text);
  if (!is_last) return look();
  Changes changes{.rows = {}, .removed = {}, .position = {}, .is_everything = true};
  for (auto& [key, row] : all_rows_) changes.rows.push_back(std::move(row));
  ++all_.restarts;
  on_followed(std::move(changes));
}

// As in RedisCatalog::everything.
void SimulatedNode::scan(std::string cursor) {
  Words words{"HSCAN", all_.keys[0], std::move(cursor), "COUNT", "500"};
  connection_.call(
      std::move(words), now() + simulated_ttl / 3,
      [this](const Result<Reply>& page) { on_page(page); }, redis::CallOptions().idempotent());
}

void SimulatedNode::on_page(const Result<Reply>& page) {
  check(page);
  if (!page) return follow_later(20ms);
  for (auto& row : rows_in(page->items.at(1).items, 0)) all_rows_[row.key] = row;
  if (page->items.at(0).text != "0") return scan(page->items.at(0).text);
  look();
}

void SimulatedNode::on_followed(Changes changes) {
  position_ = next_position_;
  gaps_of_position_ = gaps_when_asked_;
  look_at_lease();
  bool has_changes = !changes.rows.empty() || !changes.removed.empty() || changes.is_everything;
  if (has_changes) keeper_.on_changes(now(), asked_, changes);
  follow_later(has_news_ ? 0ms : look_pause);
}

void SimulatedNode::follow_later(Clock::duration pause) {
  is_following_ = false;
  connection_.after(pause, [this, times = followed_] {
    if (times == followed_) follow();
  });
}

}  // namespace warren::torture
