#include "primitives/once/machine.h"

#include <algorithm>
#include <charconv>

#include "primitives/lease/machine.h"
#include "redis/resp/command.h"

namespace warren {

namespace {

constexpr auto never = Clock::time_point::max();
constexpr auto pause_between_questions = 50ms;
// The longest time to the next look at another program's lock, since that program announces
// nothing.
constexpr std::chrono::milliseconds longest_look_away = 1s;
// How far a message, or one of two clocks, may lag behind.
constexpr auto after_the_end = 5ms;

Clock::duration look_away(std::chrono::milliseconds lock_ttl) {
  return lock_ttl < 0ms ? longest_look_away : std::clamp(lock_ttl, 10ms, longest_look_away);
}

constexpr std::size_t longest_error = 1000;

std::uint64_t number_in(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Parses a token in the format of once.lua: 0-41.
FencingToken token_in(std::string_view text) {
  auto dash = std::min(text.find('-'), text.size());
  return {number_in(text.substr(0, dash)), number_in(text.substr(std::min(dash + 1, text.size())))};
}

std::string milliseconds(std::chrono::milliseconds time) { return std::to_string(time.count()); }

bool has_blanks(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

Result<> check_status(std::string_view status) {
  if (status.empty() || status.size() > 64 || has_blanks(status) || status == "failed")
    return fail(
        Errc::invalid,
        "invalid status \"{}\": a status is a word of 1 to 64 characters without spaces, and "
        "not \"failed\"",
        status);
  return ok;
}

}  // namespace

OnceKeys once_keys(const std::string& prefix, const std::string& name, bool is_cluster) {
  auto tagged = is_cluster ? "{" + name + "}" : name;
  return {prefix + "lock:" + tagged, prefix + "resource:" + tagged, prefix + "once:" + tagged};
}

std::string_view name(OnceHow how) {
  switch (how) {
    case OnceHow::done:
      return "done";
    case OnceHow::attached:
      return "attached";
    case OnceHow::unconfirmed:
      return "unconfirmed";
  }
  return "?";
}

OnceMachine::OnceMachine(OnceTerms terms, std::string holder, bool is_cluster, OnceFlaws flaws)
    : terms_(std::move(terms)),
      holder_(std::move(holder)),
      channel_(terms_.prefix + "once"),
      is_cluster_(is_cluster),
      flaws_(flaws) {
  ensure(!holder_.empty() && !has_blanks(holder_), "a holder has a name");
  ensure(terms_.alive >= 100ms, "a claim lives long enough to be renewed");
}

Result<> OnceMachine::check(std::string_view name) const {
  if (name.empty() || name.size() > most_once_name || has_blanks(name))
    return fail(Errc::invalid, "invalid name {}: use 1 to {} bytes without spaces",
                redis::quoted(name), most_once_name);
  // Braces would make a hash tag of their own, and the keys would not be in one slot.
  if (is_cluster_ && name.find_first_of("{}") != name.npos)
    return fail(Errc::invalid, "invalid name {}: in a cluster use no braces", redis::quoted(name));
  return ok;
}

Result<> OnceMachine::check(const OnceLeft& left) {
  if (left.bytes.size() > most_once_record)
    return fail(Errc::invalid, "a record of {} bytes is too large: use at most {}",
                left.bytes.size(), most_once_record);
  return left.status.empty() ? Result<>(ok) : check_status(left.status);
}

Result<OnceMachine::Id> OnceMachine::begin(Clock::time_point now, std::string name,
                                           std::optional<OnceStep> step) {
  if (auto checked = check(name); !checked) return std::unexpected(checked.error());
  if (step)
    if (auto checked = check_status(step->status); !checked)
      return std::unexpected(checked.error());
  auto id = ++last_flight_;
  auto& flight = flights_[id];
  flight.name = std::move(name);
  flight.keys = once_keys(terms_.prefix, flight.name, is_cluster_);
  flight.is_ensure = !step;
  if (step) flight.step = *std::move(step);
  flight.timer = never;
  by_name_[flight.name].insert(id);
  ask_anew(id, flight, now);
  return id;
}

void OnceMachine::leave(Id id) {
  auto& flight = at(id);
  flight.is_wanted = false;
  bool may_be_granted = flight.state == State::asking && flight.request != 0;
  bool waits = flight.state == State::asking || flight.state == State::waiting;
  if (flight.state == State::over || (waits && !may_be_granted)) return end(id, flight);
  if (flight.state == State::working && terms_.when_abandoned == OnceAbandoned::is_ended)
    stop(id, flight, Stop::abandoned);
}

void OnceMachine::abandon(Id id) {
  auto& flight = at(id);
  flight.is_wanted = false;
  if (flight.state == State::working) return stop(id, flight, Stop::abandoned);
  if (flight.state != State::stopping && flight.state != State::settling) leave(id);
}

void OnceMachine::on_left(Clock::time_point now, Id id, OnceLeft left) {
  auto& flight = at(id);
  bool is_stopped = flight.state == State::stopping && flight.stop == Stop::lost;
  bool is_late = is_past_deadline(flight, now) && !is_optimistic() && !flaws_.works_past_deadline;
  if (is_stopped || is_late) {
    flight.stop = Stop::lost;
    return on_stopped(now, id);
  }
  flight.left = std::move(left);
  settle(id, flight, How::left, now);
}

void OnceMachine::on_failed(Clock::time_point now, Id id, Error error,
                            std::optional<std::chrono::milliseconds> retry_after) {
  auto& flight = at(id);
  if (flight.state == State::stopping) return on_stopped(now, id);
  if (error.what.size() > longest_error) error.what.resize(longest_error);
  ++counters_.failed;
  flight.error = error;
  flight.retry_after = retry_after.value_or(terms_.retry_after);
  conclude(id, flight, std::unexpected(std::move(error)));
  if (!flight.has_claim) return end(id, flight);
  settle(id, flight, How::failed, now);
}

void OnceMachine::on_stopped(Clock::time_point now, Id id) {
  auto& flight = at(id);
  if (flight.stop == Stop::too_long) {
    flight.state = State::working;
    return on_failed(
        now, id,
        {Errc::timeout, fmt::format("{} of {} took longer than {} s", flight.step.status,
                                    flight.name, terms_.busy_ttl.count() / 1000)},
        std::nullopt);
  }
  if (flight.stop == Stop::abandoned && flight.has_claim) return settle(id, flight, How::back, now);
  if (!flight.is_wanted) return end(id, flight);
  ask_anew(id, flight, now);
}

std::uint64_t OnceMachine::note(Clock::time_point now, Id id, std::string text) {
  auto& flight = at(id);
  flight.note = std::move(text);
  flight.next = now;
  auto number = ++flight.notes;
  update(id, flight, now);
  return number;
}

std::string_view OnceMachine::why_stopped(Id id) const {
  switch (at(id).stop) {
    case Stop::lost:
      return "lost";
    case Stop::abandoned:
      return "abandoned";
    case Stop::too_long:
      return "too_long";
  }
  return "?";
}

void OnceMachine::on_reply(Clock::time_point now, std::uint64_t request,
                           const Result<redis::Reply>& reply) {
  auto found = sent_.find(request);
  ensure(found != sent_.end(), "an answer belongs to a request");
  auto sent = found->second;
  sent_.erase(found);
  auto of = flights_.find(sent.flight);
  if (of == flights_.end()) return;
  auto& [id, flight] = *of;
  if (flight.request != request) return;  // it belongs to something that is over
  flight.request = 0;
  if (flaws_.deadline_from_reply) sent.at = now;
  if (!reply) return on_no_answer(id, flight, sent, reply.error(), now);
  auto state = OnceState::of(*reply);
  if (!state) {
    Error strange{Errc::protocol,
                  fmt::format("{} does not hold what it should", flight.keys.state)};
    return on_no_answer(id, flight, sent, strange, now);
  }
  flight.problem.reset();
  flight.silent_since = now;
  flight.seen = state->token;
  switch (sent.about) {
    case Sent::About::take:
      if (state->is_done) return on_granted(id, flight, sent, *state, now);
      return on_seen(id, flight, *state, true, now);
    case Sent::About::renew:
      return on_renewed(id, flight, sent, *state, now);
    case Sent::About::settle:
      return on_settled(id, flight, *state, now);
  }
}

void OnceMachine::on_no_answer(Id id, Flight& flight, const Sent& sent, const Error& error,
                               Clock::time_point now) {
  flight.problem = error;
  if (sent.about == Sent::About::renew) {
    flight.next = now + std::max<Clock::duration>(terms_.alive / 20, 10ms);
    return update(id, flight, now);
  }
  bool has_worked = flight.state != State::asking && sent.about == Sent::About::take;
  if (!may_retry(error) && !has_worked) {
    conclude(id, flight, std::unexpected(error));
    return end(id, flight);
  }
  if (flight.state == State::asking && !flight.is_wanted) return end(id, flight);
  flight.next = now + (has_worked ? Clock::duration(1s) : pause_between_questions);
  update(id, flight, now);
}

void OnceMachine::on_granted(Id id, Flight& flight, const Sent& sent, const OnceState& state,
                             Clock::time_point now) {
  // Granted by a server that was replaced, or too late to prove anything: the same attempt asks
  // again.
  bool is_old = state.token.epoch < epoch_;
  if (is_old || sent.at + LeaseMachine::trusted(terms_.alive) <= now) {
    flight.next = now;
    return update(id, flight, now);
  }
  join(flight, state.token);
  flight.has_claim = true;
  flight.token = state.token;
  flight.confirmed = sent.at;
  flight.next = std::max(now, sent.at + terms_.alive / 3);
  ++counters_.claimed;
  if (!state.left.empty()) ++counters_.taken_over;
  flight.record.reset();
  if (!state.was.empty()) {
    flight.record = state.as_record(flight.name);
    flight.record->status = state.was;
    flight.record->is_busy = flight.record->is_orphan = false;
  }
  flight.earlier.reset();
  if (!state.left.empty() || !state.foreign.empty()) {
    auto words = std::string_view(state.left);
    auto end = std::min(words.find(' '), words.size());
    flight.earlier = OnceEarlier{std::string(words.substr(0, end)),
                                 token_in(words.substr(std::min(end + 1, words.size()))),
                                 state.note, state.foreign};
  }
  if (flight.state == State::settling) {
    flight.next = now;
  } else if (flight.state == State::asking || flight.state == State::waiting) {
    if (!flight.is_wanted) return settle(id, flight, How::back, now);
    flight.began = now;
    set(id, flight, State::working);
  }
  update(id, flight, now);
}

void OnceMachine::on_renewed(Id id, Flight& flight, const Sent& sent, const OnceState& state,
                             Clock::time_point now) {
  if (!state.is_done) {
    flight.has_claim = false;
    if (flight.state == State::working) return stop(id, flight, Stop::lost);
    flight.stop = Stop::lost;
    return update(id, flight, now);
  }
  flight.confirmed = std::max(flight.confirmed, sent.at);
  bool had_news = sent.notes > flight.note_confirmed;
  flight.note_confirmed = std::max(flight.note_confirmed, sent.notes);
  if (had_news) changes_.push_back(id);
  flight.next =
      flight.notes > flight.note_confirmed ? now : std::max(now, sent.at + terms_.alive / 3);
  update(id, flight, now);
}

void OnceMachine::on_settled(Id id, Flight& flight, const OnceState& state, Clock::time_point now) {
  flight.has_claim = false;
  bool is_refused = !state.is_done && !flaws_.ignores_refusal;
  if (is_refused) ++counters_.refused;
  if (flight.outcome) {
    if (!is_refused) ++counters_.recorded;
    return end(id, flight);
  }
  if (is_refused || flight.how == How::back) {
    if (!flight.is_wanted) return end(id, flight);
    return ask_anew(id, flight, now);
  }
  ++counters_.recorded;
  OnceRecord record{.name = flight.name,
                    .status = flight.left.status,
                    .bytes = flight.left.bytes,
                    .token = flight.token};
  record.owner = flight.attempt;
  conclude(id, flight, OnceOutcome{OnceHow::done, std::move(record)});
  end(id, flight);
}

void OnceMachine::on_message(Clock::time_point now, std::string_view payload) {
  auto message = OnceState::of_message(payload);
  if (!message) return;
  auto found = by_name_.find(message->first);
  if (found == by_name_.end()) return;
  auto ids = found->second;  // a flight may end
  for (auto id : ids) {
    auto flight = flights_.find(id);
    if (flight != flights_.end() && message->second.owner != flight->second.attempt)
      on_seen(id, flight->second, message->second, false, now);
  }
}

// Handles a state that is not a claim of ours.
void OnceMachine::on_seen(Id id, Flight& flight, const OnceState& state, bool is_answer,
                          Clock::time_point now) {
  using Phase = OnceState::Phase;
  bool is_alone =
      !flight.has_claim && (flight.state == State::working || flight.state == State::settling);
  if (is_alone) return on_seen_alone(id, flight, state, now);
  if (flight.state != State::asking && flight.state != State::waiting) return;
  // Before the first answer we cannot tell how old a message is. After it, a message with an older
  // token was slow.
  if (!is_answer && flight.state == State::asking) {
    flight.asks_again = true;
    return;
  }
  if (!is_answer && state.token < flight.seen) return;
  if (is_answer && !flight.is_wanted) return end(id, flight);
  if (state.foreign_lock) return wait_until(id, flight, now + look_away(*state.foreign_lock));
  bool is_joined = was_joined(flight, state);
  bool came_to_nothing = is_joined && !state.left.empty() && !state.error;
  switch (state.phase) {
    case Phase::busy:
      return on_busy(id, flight, state, now);
    case Phase::failed:
      if (!flight.is_ensure && !is_answer) return ask(id, flight, now);
      if (flight.is_ensure && state.retry_after <= 0ms) return ask(id, flight, now);
      if (flight.is_ensure)
        conclude(id, flight,
                 std::unexpected(
                     state.error.value_or(Error{Errc::refused, "the last creation failed"})));
      else
        conclude(id, flight, fail(Errc::not_found, "there is no {}", flight.name));
      return end(id, flight);
    case Phase::left:
      if (!state.is_complete || came_to_nothing) return ask(id, flight, now);
      if (is_joined && state.error && !flight.is_ensure) {
        conclude(id, flight, std::unexpected(*state.error));
        return end(id, flight);
      }
      if (flight.is_ensure || is_joined || is_answer) return attach(id, flight, state);
      return ask(id, flight, now);
    case Phase::none:
      if (!flight.is_ensure && is_joined && !came_to_nothing) return attach(id, flight, state);
      if (!is_answer) return ask(id, flight, now);
      if (flight.is_ensure && !was_removed(flight, state)) return ask_anew(id, flight, now);
      if (flight.is_ensure)
        conclude(id, flight, fail(Errc::refused, "{} was removed meanwhile", flight.name));
      conclude(id, flight, fail(Errc::not_found, "there is no {}", flight.name));
      return end(id, flight);
  }
}

void OnceMachine::on_busy(Id id, Flight& flight, const OnceState& state, Clock::time_point now) {
  flight.waits_for = state.token;
  flight.waits_for_status = state.status;
  if (state.status == flight.step.status) join(flight, state.token);
  bool has_news = std::exchange(flight.asks_again, false);
  if (state.alive_for <= 0ms || has_news) return ask(id, flight, now);
  wait_until(id, flight, now + state.alive_for + after_the_end);
}

// We work, or have worked, without a claim because Redis was away. Now another process is working,
// or done: its result counts.
void OnceMachine::on_seen_alone(Id id, Flight& flight, const OnceState& state,
                                Clock::time_point now) {
  using Phase = OnceState::Phase;
  if (flight.request != 0) return;
  bool is_decided = state.phase == Phase::busy || state.phase == Phase::left;
  if (!is_decided) {
    if (state.phase == Phase::none && !state.foreign_lock) new_attempt(flight);
    flight.next = now + std::clamp(state.retry_after, 50ms, longest_look_away);
    return update(id, flight, now);
  }
  if (flight.state == State::working) return stop(id, flight, Stop::lost);
  if (flight.outcome) return end(id, flight);
  ask_anew(id, flight, now);
}

bool OnceMachine::was_joined(const Flight& flight, const OnceState& state) const {
  return flight.waits_for == state.token && flight.waits_for_status == flight.step.status &&
         flight.waits_for != FencingToken{};
}

// The record was removed while it was being created for us. A caller that asks from now on may
// create it again.
bool OnceMachine::was_removed(const Flight& flight, const OnceState& state) const {
  return flight.joined != FencingToken{} && flight.joined < state.token && state.left.empty();
}

void OnceMachine::on_gap(Clock::time_point now) {
  if (flaws_.ignores_gap) return;
  for (auto& [id, flight] : flights_) {
    if (flight.state == State::waiting) ask(id, flight, now);
    if (flight.state == State::asking && flight.request != 0) flight.asks_again = true;
  }
}

void OnceMachine::on_connected(Clock::time_point now, std::uint64_t epoch) {
  epoch_ = std::max(epoch_, epoch);
  on_gap(now);
  for (auto& [id, flight] : flights_) {
    if (flight.state != State::working || !flight.has_claim) continue;
    flight.next = now;
    update(id, flight, now);
  }
}

std::optional<OnceMachine::Request> OnceMachine::next(Clock::time_point now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    auto id = timers_.begin()->second;
    set_timer(id, at(id), never);
    update(id, at(id), now);
  }
  if (requests_.empty()) return std::nullopt;
  auto request = std::move(requests_.front());
  requests_.pop_front();
  return request;
}

Clock::time_point OnceMachine::wake_at() const {
  if (!requests_.empty()) return {};
  return timers_.empty() ? never : timers_.begin()->first;
}

void OnceMachine::update(Id id, Flight& flight, Clock::time_point now) {
  act(id, flight, now);
  auto found = flights_.find(id);
  if (found != flights_.end()) set_timer(id, found->second, due(found->second));
}

void OnceMachine::act(Id id, Flight& flight, Clock::time_point now) {
  bool is_due = flight.request == 0 && now >= flight.next;
  switch (flight.state) {
    case State::asking:
      if (is_due) send_take(id, flight, now);
      if (is_optimistic() && flight.is_ensure && flight.is_wanted &&
          now >= flight.silent_since + terms_.patience)
        begin_alone(id, flight, now);
      return;
    case State::waiting:
      if (now >= flight.next) ask(id, flight, now);
      return;
    case State::working:
      if (now >= flight.began + terms_.busy_ttl) return stop(id, flight, Stop::too_long);
      if (flight.has_claim && !is_optimistic() && !flaws_.works_past_deadline &&
          is_past_deadline(flight, now))
        return stop(id, flight, Stop::lost);
      if (is_due && flight.has_claim) send_renewal(id, flight, now);
      if (is_due && !flight.has_claim) send_take(id, flight, now);
      return;
    case State::stopping:
      if (is_due && flight.has_claim) send_renewal(id, flight, now);
      return;
    case State::settling:
      if (now >= settle_end(flight)) {
        conclude(id, flight, fail(Errc::unknown_outcome, "{}: no answer from Redis", flight.name));
        return end(id, flight);
      }
      if (is_due && flight.has_claim) send_settlement(id, flight, now);
      if (is_due && !flight.has_claim) send_take(id, flight, now);
      if (is_optimistic() && flight.how == How::left && !flight.outcome &&
          now >= flight.silent_since + terms_.patience) {
        OnceRecord record{
            .name = flight.name, .status = flight.left.status, .bytes = flight.left.bytes};
        conclude(id, flight, OnceOutcome{OnceHow::unconfirmed, std::move(record)});
      }
      return;
    case State::over:
      return;
  }
}

Clock::time_point OnceMachine::due(const Flight& flight) const {
  auto next = flight.request == 0 ? flight.next : never;
  switch (flight.state) {
    case State::asking:
      if (is_optimistic() && flight.is_ensure && flight.is_wanted)
        next = std::min(next, flight.silent_since + terms_.patience);
      return next;
    case State::waiting:
      return flaws_.never_looks_again ? never : flight.next;
    case State::working:
      if (flight.has_claim && !is_optimistic() && !flaws_.works_past_deadline)
        next = std::min(next, deadline(flight));
      return std::min(next, flight.began + terms_.busy_ttl);
    case State::stopping:
      return flight.has_claim ? next : never;
    case State::settling:
      if (is_optimistic() && flight.how == How::left && !flight.outcome)
        next = std::min(next, flight.silent_since + terms_.patience);
      return std::min(next, settle_end(flight));
    case State::over:
      return never;
  }
  return never;
}

// A step that is given back expires by itself.
Clock::time_point OnceMachine::settle_end(const Flight& flight) const {
  return flight.began + (flight.how == How::back ? terms_.alive : terms_.busy_ttl);
}

Clock::time_point OnceMachine::deadline(const Flight& flight) const {
  if (!flight.has_claim) return {};
  return flight.confirmed + LeaseMachine::trusted(terms_.alive);
}

bool OnceMachine::is_past_deadline(const Flight& flight, Clock::time_point now) const {
  return flight.has_claim && now >= deadline(flight);
}

void OnceMachine::new_attempt(Flight& flight) {
  flight.attempt = fmt::format("{}/{}", holder_, ++last_attempt_);
  flight.has_claim = false;
  flight.token = {};
}

// Starts over, for a new flight or one whose claim came to nothing.
void OnceMachine::ask_anew(Id id, Flight& flight, Clock::time_point now) {
  new_attempt(flight);
  flight.waits_for = {};
  flight.request = 0;
  flight.record.reset();
  flight.earlier.reset();
  flight.note.clear();
  flight.notes = flight.note_confirmed = 0;
  ask(id, flight, now);
}

void OnceMachine::ask(Id id, Flight& flight, Clock::time_point now) {
  if (flight.state != State::asking || flight.silent_since == Clock::time_point{}) {
    flight.silent_since = now;
    set(id, flight, State::asking);
  }
  flight.asks_again = false;
  flight.next = now;
  update(id, flight, now);
}

void OnceMachine::wait_until(Id id, Flight& flight, Clock::time_point time) {
  flight.next = time;
  set(id, flight, State::waiting);
  set_timer(id, flight, due(flight));
}

// The terms say that the resource itself refuses a second one.
void OnceMachine::begin_alone(Id id, Flight& flight, Clock::time_point now) {
  ++counters_.alone;
  flight.began = now;
  set(id, flight, State::working);
}

void OnceMachine::stop(Id id, Flight& flight, Stop why) {
  flight.stop = why;
  if (why == Stop::lost) {
    ++counters_.lost;
    flight.has_claim = false;
  }
  set(id, flight, State::stopping);
  set_timer(id, flight, due(flight));
}

void OnceMachine::settle(Id id, Flight& flight, How how, Clock::time_point now) {
  flight.how = how;
  flight.began = now;
  if (flight.has_claim) {
    flight.silent_since = now;
    flight.request = 0;  // a renewal
  }
  if (flight.request == 0) flight.next = now;
  set(id, flight, State::settling);
  update(id, flight, now);
}

void OnceMachine::conclude(Id id, Flight& flight, Result<OnceOutcome> outcome) {
  if (flight.outcome) return;
  flight.outcome = std::move(outcome);
  changes_.push_back(id);
}

void OnceMachine::attach(Id id, Flight& flight, const OnceState& state) {
  ++counters_.attached;
  conclude(id, flight, OnceOutcome{OnceHow::attached, state.as_record(flight.name)});
  end(id, flight);
}

void OnceMachine::end(Id id, Flight& flight) {
  set(id, flight, State::over);
  set_timer(id, flight, never);
  if (flight.is_wanted) return;
  auto named = by_name_.find(flight.name);
  named->second.erase(id);
  if (named->second.empty()) by_name_.erase(named);
  flights_.erase(id);
  changes_.push_back(id);
}

void OnceMachine::set(Id id, Flight& flight, State state) {
  if (flight.state == state) return;
  flight.state = state;
  changes_.push_back(id);
}

void OnceMachine::set_timer(Id id, Flight& flight, Clock::time_point time) {
  if (flight.timer == time) return;
  if (flight.timer != never) timers_.erase({flight.timer, id});
  if (time != never) timers_.insert({time, id});
  flight.timer = time;
}

std::string OnceMachine::text(const std::string& name, std::string_view status,
                              std::string_view bytes, const Error* error) const {
  if (!terms_.show) return "";
  if (status.empty()) return "-";
  return terms_.show({name, status, bytes, error});
}

OnceMachine::Request OnceMachine::request_of(const std::string& name, const OnceKeys& keys,
                                             std::string what, const std::string& attempt,
                                             FencingToken token, std::string text,
                                             std::chrono::milliseconds text_ttl) const {
  Request request;
  request.keys = {keys.state, keys.lock, keys.resource};
  request.args = {std::move(what),
                  channel_,
                  name,
                  attempt,
                  std::to_string(epoch_),
                  std::to_string(token.epoch),
                  std::to_string(token.counter),
                  std::move(text),
                  milliseconds(text_ttl),
                  milliseconds(fence_retention)};
  return request;
}

void OnceMachine::send(Id id, Flight& flight, Sent::About about, Request request,
                       Clock::time_point now) {
  request.id = ++last_request_;
  request.deadline = now + terms_.alive / 3;
  flight.request = request.id;
  sent_[request.id] = {about, id, now, flight.notes};
  requests_.push_back(std::move(request));
}

void OnceMachine::send_take(Id id, Flight& flight, Clock::time_point now) {
  const auto& step = flight.step;
  std::string from;
  for (const auto& status : step.from) from += " " + status + " ";
  auto request =
      request_of(flight.name, flight.keys, "take", flight.attempt,
                 flight.is_ensure ? flight.joined : step.version.value_or(FencingToken{}),
                 text(flight.name, step.status, ""), terms_.busy_ttl);
  for (auto& word : {step.status, milliseconds(terms_.alive), milliseconds(terms_.lock_ttl),
                     std::string(flight.is_ensure ? "ensure" : "change"), from,
                     std::string(step.takes_over ? "1" : "0")})
    request.args.push_back(word);
  send(id, flight, Sent::About::take, std::move(request), now);
}

void OnceMachine::send_renewal(Id id, Flight& flight, Clock::time_point now) {
  bool has_news = flight.notes > flight.note_confirmed;
  auto request = request_of(flight.name, flight.keys, "renew", flight.attempt, flight.token,
                            text(flight.name, flight.step.status, flight.note), terms_.busy_ttl);
  for (auto& word : {flight.step.status, milliseconds(terms_.alive), milliseconds(terms_.lock_ttl),
                     has_news ? "+" + flight.note : std::string()})
    request.args.push_back(word);
  request.is_renewal = true;
  send(id, flight, Sent::About::renew, std::move(request), now);
}

void OnceMachine::send_settlement(Id id, Flight& flight, Clock::time_point now) {
  bool is_left = flight.how == How::left, has_failed = flight.how == How::failed;
  std::string shown;
  auto ttl = terms_.record_ttl;
  if (is_left) {
    shown = text(flight.name, flight.left.status, flight.left.bytes);
  } else if (flight.record) {
    shown = text(flight.name, flight.record->status, flight.record->bytes);
  } else if (has_failed) {
    shown = text(flight.name, "failed", "", &flight.error);
    ttl = terms_.failed_ttl;
  } else {
    shown = text(flight.name, "", "");
  }
  auto request =
      request_of(flight.name, flight.keys, "settle", flight.attempt, flight.token, shown, ttl);
  auto error = fmt::format("{} {}", warren::name(flight.error.code), flight.error.what);
  for (auto& word :
       {std::string(is_left      ? "left"
                    : has_failed ? "failed"
                                 : "back"),
        is_left ? flight.left.status : flight.step.status,
        is_left ? flight.left.bytes : std::string(), has_failed ? error : std::string(),
        milliseconds(flight.retry_after), milliseconds(terms_.record_ttl)})
    request.args.push_back(word);
  send(id, flight, Sent::About::settle, std::move(request), now);
}

OnceMachine::Request OnceMachine::to_get(const std::string& name) const {
  return request_of(name, once_keys(terms_.prefix, name, is_cluster_), "get", holder_ + "/0", {},
                    "", 0ms);
}

OnceMachine::Request OnceMachine::to_replace(const OnceRecord& record, const OnceLeft& left) {
  auto keys = once_keys(terms_.prefix, record.name, is_cluster_);
  auto request =
      request_of(record.name, keys, "replace", fmt::format("{}/{}", holder_, ++last_attempt_),
                 record.token, text(record.name, left.status, left.bytes), terms_.record_ttl);
  request.args.push_back(left.status);
  request.args.push_back(left.bytes);
  return request;
}

OnceMachine::Request OnceMachine::to_refresh(const OnceRecord& record) const {
  auto keys = once_keys(terms_.prefix, record.name, is_cluster_);
  return request_of(record.name, keys, "refresh", holder_ + "/0", record.token,
                    text(record.name, record.status, record.bytes), terms_.record_ttl);
}

}  // namespace warren
