#include "proof/torture/schedules/once_sim_user.h"

#include <charconv>

#include "primitives/lease/steps.h"
#include "redis/resp/refusal.h"

namespace warren::torture {

namespace {

using history::OnceEvent;
using history::ProcessId;
using history::ThingId;
using Kind = OnceEvent::Kind;
using State = OnceMachine::State;

history::Token token_of(FencingToken token) { return {token.epoch, token.counter}; }

// A record of this thing contains its uid.
std::uint64_t value_of(const OnceRecord& record) {
  std::uint64_t uid = 0;
  std::from_chars(record.bytes.data(), record.bytes.data() + record.bytes.size(), uid);
  return record.status.empty() ? 0 : uid;
}

OnceFlaws flaws_of(OnceMistake mistake) {
  OnceFlaws flaws;
  flaws.deadline_from_reply = mistake == OnceMistake::deadline_from_reply;
  flaws.works_past_deadline = mistake == OnceMistake::works_past_deadline;
  flaws.ignores_refusal = mistake == OnceMistake::ignores_refusal;
  flaws.never_looks_again = mistake == OnceMistake::never_looks_again;
  return flaws;
}

OnceTerms terms_of(const OnceWorld& all) {
  auto terms = all.terms;
  if (all.mistake == OnceMistake::as_if_granted) terms.without_redis = OnceWithoutRedis::optimistic;
  return terms;
}

}  // namespace

std::string thing_name(ThingId thing) { return fmt::format("t{}", thing); }

std::optional<std::uint64_t> SimulatedThing::make(FencingToken token) {
  if (token != FencingToken{} && token < newest) return std::nullopt;
  newest = std::max(newest, token);
  if (uid == 0) uid = ++last_uid;
  return uid;
}

bool SimulatedThing::remove(FencingToken token) {
  if (token < newest) return false;
  newest = token;
  uid = 0;
  return true;
}

OnceUser::OnceUser(OnceWorld& all, sim::Connection& connection, ProcessId id)
    : all_(all),
      id_(id),
      connection_(connection),
      machine_(terms_of(all), fmt::format("p{}", id), all.is_cluster, flaws_of(all.mistake)) {
  connection_.on_message = [this](const sim::Message& message) {
    machine_.on_message(now(), message.payload);
    pump();
  };
  connection_.on_settled = connection_.on_gap = [this] {
    machine_.on_gap(now());
    pump();
  };
  connection_.on_connected = [this] {
    machine_.on_connected(now(), connection_.epoch());
    pump();
  };
}

void OnceUser::note(Kind kind, ThingId thing, std::uint32_t call, FencingToken token,
                    std::uint64_t value, Clock::time_point since, Clock::time_point deadline) {
  all_.history.note({.at = now(),
                     .kind = kind,
                     .thing = thing,
                     .process = id_,
                     .call = call,
                     .token = token_of(token),
                     .value = value,
                     .since = since,
                     .deadline = deadline});
}

void OnceUser::begin_life() {
  machine_.on_connected(now(), connection_.epoch());
  connection_.subscribe(machine_.channel());
  connection_.after(all_.world.between(1ms, 20ms), [this] { act(); });
}

void OnceUser::die() {
  note(Kind::killed, 0, 0);
  connection_.close();
}

void OnceUser::sleep(Clock::duration time) {
  if (now() < awake_at_) return;
  awake_at_ = now() + time;
  note(Kind::asleep, 0, 0, {}, 0, {}, awake_at_);
  connection_.pause(time);
}

void OnceUser::act() {
  if (is_retired_) return;
  auto thing = ThingId(all_.world.below(simulated_things));
  auto patience = all_.world.between(20ms, 3 * once_alive);
  auto chance = all_.world.unit();
  if (calls_.size() < 3) {
    if (chance < 0.6)
      begin(thing, Wish::make, {}, patience);
    else if (chance < 0.72)
      begin(thing, Wish::remove, {.status = "stopping", .takes_over = all_.world.chance(0.4)},
            patience);
    else if (chance < 0.8)
      begin(thing, Wish::change, {.status = "pausing", .from = {"created"}}, patience);
    else if (chance < 0.88)
      begin(thing, Wish::change, {.status = "resuming", .from = {"paused"}}, patience);
    else
      refresh_what_it_knew();
  }
  connection_.after(all_.world.between(5ms, 120ms), [this] { act(); });
}

void OnceUser::ask_for_all() {
  for (ThingId thing = 0; thing < simulated_things; ++thing)
    begin(thing, Wish::make, {}, 4 * once_alive);
}

OnceUser::Call& OnceUser::begin(ThingId thing, Wish wish, OnceStep step, Clock::duration patience,
                                std::function<void()> done) {
  auto asked = wish == Wish::make ? std::nullopt : std::optional(step);
  auto id = machine_.begin(now(), thing_name(thing), asked);
  ensure(id.has_value(), "the machine takes what it is asked");
  auto& call = calls_[*id];
  call.thing = thing;
  call.wish = wish;
  call.number = ++numbers_;
  call.asked = now();
  call.deadline = now() + patience;
  call.step = std::move(step);
  call.done = std::move(done);
  note(Kind::asked, thing, call.number, {}, call.step.takes_over ? OnceEvent::by_force : 0, {},
       call.deadline);
  connection_.at(call.deadline, [this, flight = *id] { give_up(flight); });
  pump();
  return call;
}

// Its caller's deadline has passed.
void OnceUser::give_up(Id id) {
  auto found = calls_.find(id);
  if (found == calls_.end() || found->second.is_answered) return;
  auto& call = found->second;
  call.is_answered = true;
  note(Kind::ended, call.thing, call.number, {}, 1, call.asked);
  auto done = std::move(call.done);
  if (machine_.knows(id)) machine_.leave(id);
  pump();
  if (done) done();
}

void OnceUser::pump() {
  while (auto request = machine_.next(now())) {
    auto id = request->id;
    send(*std::move(request), [this, id](const Result<redis::Reply>& reply) {
      machine_.on_reply(now(), id, reply);
      pump();
    });
  }
  for (auto id : machine_.take_changes()) look(id);
  for (auto& [id, call] : calls_) look_at_deadline(id, call);
  set_timer();
}

// As in Once::run.
void OnceUser::send(OnceMachine::Request request,
                    std::function<void(const Result<redis::Reply>&)> answer) {
  auto options = redis::CallOptions().idempotent();
  if (request.is_renewal) options = options.lane(redis::Lane::renewal);
  auto first = [this, request, options,
                answer = std::move(answer)](const Result<redis::Reply>& reply) {
    if (!reply && redis::said(reply.error(), "ERR")) all_.found("the script", reply.error().what);
    if (reply || !LeaseSteps::are_needed(reply.error())) return answer(reply);
    connection_.call(sim::words_of(all_.script, {request.keys[0]}, request.args), request.deadline,
                     answer, options);
  };
  connection_.call(sim::words_of(all_.script, request.keys, request.args), request.deadline,
                   std::move(first), options.unless_keys_are_split());
}

void OnceUser::set_timer() {
  auto wake = machine_.wake_at();
  if (wake >= wakes_at_) return;
  wakes_at_ = wake;
  connection_.at(wake, [this, wake] {
    if (wake != wakes_at_) return;
    wakes_at_ = Clock::time_point::max();
    pump();
  });
}

void OnceUser::look(Id id) {
  auto found = calls_.find(id);
  if (found == calls_.end()) return;
  auto& call = found->second;
  if (!machine_.knows(id)) {
    if (call.claim != 0) end_work(call);
    calls_.erase(found);
    return;
  }
  look_at_work(id, call);
  if (machine_.outcome(id) && !call.is_answered) conclude(id, call);
}

void OnceUser::look_at_work(Id id, Call& call) {
  auto state = machine_.state(id);
  if (state == State::working && call.claim == 0) begin_work(id, call);
  if (state == State::stopping && call.work != 0) {
    // A cancelled coroutine leaves soon, and what it has sent continues.
    call.work = 0;
    end_work(call);
    connection_.after(all_.world.between(0ms, 5ms), [this, id] {
      if (machine_.knows(id) && machine_.state(id) == State::stopping) {
        machine_.on_stopped(now(), id);
        pump();
      }
    });
  }
}

void OnceUser::look_at_deadline(Id id, Call& call) {
  if (!call.is_noted || !machine_.knows(id) || machine_.deadline(id) <= call.noted_deadline) return;
  call.noted_deadline = machine_.deadline(id);
  note(Kind::renewed, call.thing, call.claim, {}, 0, {}, call.noted_deadline);
}

void OnceUser::conclude(Id id, Call& call) {
  call.is_answered = true;
  const auto& outcome = *machine_.outcome(id);
  if (outcome) {
    const auto& record = outcome->record;
    if (outcome->how == OnceHow::done)
      note(Kind::accepted, call.thing, call.number, record.token, value_of(record), call.left);
    note(Kind::answered, call.thing, call.number, record.token, value_of(record), call.asked);
    if (outcome->how != OnceHow::unconfirmed) known_[call.thing] = record;
  } else {
    note(Kind::ended, call.thing, call.number, {}, may_retry(outcome.error()) ? 1 : 0, call.asked);
  }
  auto done = std::move(call.done);
  machine_.leave(id);
  pump();
  if (done) done();
}

void OnceUser::begin_work(Id id, Call& call) {
  call.claim = ++numbers_;
  call.work = ++works_;
  call.is_noted = false;
  auto token = machine_.token(id);
  if (token == FencingToken{}) {
    ++all_.alone;
    if (all_.terms.without_redis == OnceWithoutRedis::fail)
      all_.found("I19", "work began although nothing was granted");
  } else {
    // The server cannot have granted it before we asked, and a grant older than this would be over.
    auto since = std::max(call.asked, now() - once_alive);
    bool is_from_nothing = !machine_.record(id);
    auto value = is_from_nothing ? OnceEvent::from_nothing : 0;
    note(Kind::claimed, call.thing, call.claim, token, value, since, machine_.deadline(id));
    call.is_noted = true;
    call.noted_deadline = machine_.deadline(id);
  }
  if (machine_.earlier(id)) ++all_.takeovers;
  if (all_.world.chance(0.2)) machine_.note(now(), id, "begun");
  auto before = all_.world.chance(0.2) ? all_.world.between(0ms, 2 * once_alive)
                                       : all_.world.between(1ms, 40ms);
  connection_.after(before, [this, id, work = call.work] { post(id, work); });
}

void OnceUser::end_work(Call& call) {
  if (call.is_noted) note(Kind::let_go, call.thing, call.claim);
  call.claim = 0;
  call.is_noted = false;
}

// A request to the resource arrives at some time, whatever happens to its sender.
void OnceUser::post(Id id, std::uint64_t work) {
  auto found = calls_.find(id);
  if (found == calls_.end() || found->second.work != work) return;
  auto& call = found->second;
  auto& thing = all_.things[call.thing];
  auto token = machine_.token(id);
  auto way = all_.world.chance(0.15) ? all_.world.between(0ms, longest_post)
                                     : all_.world.between(1ms, 10ms);
  bool removes = call.wish == Wish::remove;
  all_.world.after(way, [this, id, work, removes, token, &thing] {
    auto uid = removes ? std::optional<std::uint64_t>(0) : thing.make(token);
    if (removes && !thing.remove(token)) uid = std::nullopt;
    if (!is_dead())
      connection_.after(all_.world.between(0ms, 20ms),
                        [this, id, work, uid] { finish(id, work, uid); });
  });
}

void OnceUser::finish(Id id, std::uint64_t work, std::optional<std::uint64_t> uid) {
  auto found = calls_.find(id);
  if (found == calls_.end() || found->second.work != work) return;
  auto& call = found->second;
  call.work = 0;
  if (machine_.state(id) != State::working) return;
  end_work(call);
  if (!uid || (!is_retired_ && all_.world.chance(0.08))) {
    machine_.on_failed(now(), id, {Errc::refused, "planted"}, std::nullopt);
  } else {
    OnceLeft left{.status = "created", .bytes = std::to_string(*uid)};
    if (call.wish == Wish::remove) left = {.status = "", .bytes = ""};
    if (call.step.status == "pausing") left.status = "paused";
    call.left = now();
    machine_.on_left(now(), id, std::move(left));
  }
  pump();
}

void OnceUser::refresh_what_it_knew() {
  for (auto& [thing, record] : known_) {
    if (record.status.empty()) continue;
    auto request = machine_.to_refresh(record);
    request.deadline = now() + once_alive / 3;
    send(std::move(request), [](const Result<redis::Reply>&) {});
  }
}

void OnceUser::reconcile(ThingId thing, std::function<void()> done) {
  auto request = machine_.to_get(thing_name(thing));
  request.deadline = now() + once_alive;
  send(std::move(request), [this, thing, done](const Result<redis::Reply>& reply) {
    auto again = [this, thing, done] {
      connection_.after(5ms, [this, thing, done] { reconcile(thing, done); });
    };
    auto state = reply ? OnceState::of(*reply) : std::nullopt;
    if (!state) return again();
    auto record = state->as_record(thing_name(thing));
    auto uid = all_.things[thing].uid;
    bool is_settled = state->phase == OnceState::Phase::left;
    if (!is_settled && state->phase != OnceState::Phase::busy && uid == 0) return done();
    if (is_settled && value_of(record) == uid) return done();
    if (!is_settled) {  // a resource without a record, or a process that may be dead
      ++all_.adopted;
      begin(thing, Wish::make, {}, 4 * once_alive, again);
      return;
    }
    auto removal = machine_.to_replace(record, {.status = "", .bytes = ""});
    removal.deadline = now() + once_alive;
    send(std::move(removal), [this, thing, again](const Result<redis::Reply>& answer) {
      auto after = answer ? OnceState::of(*answer) : std::nullopt;
      if (after && after->is_done) note(Kind::accepted, thing, 0, after->token, 0, now());
      again();
    });
  });
}

}  // namespace warren::torture
