#include "primitives/once/once.h"

#include <boost/asio/redirect_error.hpp>

#include "base/log.h"
#include "base/uuid.h"
#include "primitives/lease/steps.h"
#include "primitives/once/scripts.h"

namespace warren {

namespace {

using State = OnceMachine::State;

// Callers in one process that ask for the same share one flight.
std::string wish(const std::string& name, const std::optional<OnceStep>& step) {
  if (!step) return name;
  auto version = step->version.value_or(FencingToken{});
  auto wish =
      fmt::format("{}\n{}\n{}\n{}", name, step->status, to_string(version), step->takes_over);
  for (const auto& status : step->from) wish += "\n" + status;
  return wish;
}

// New at every start, so that no attempt is mistaken for one of an earlier run.
std::string unique(std::string holder) {
  return holder.empty() ? uuid4() : holder + ":" + uuid4().substr(0, 8);
}

}  // namespace

const std::string& OnceClaim::name() const { return once_.machine_.name(id_); }

FencingToken OnceClaim::token() const { return once_.machine_.token(id_); }

Clock::time_point OnceClaim::deadline() const { return once_.machine_.deadline(id_); }

const std::optional<OnceRecord>& OnceClaim::record() const { return once_.machine_.record(id_); }

const std::optional<OnceEarlier>& OnceClaim::earlier() const { return once_.machine_.earlier(id_); }

Async<> OnceClaim::note(std::string text) {
  if (text.size() > most_once_note)
    co_return fail(Errc::invalid, "a note of {} bytes is too large: use at most {}", text.size(),
                   most_once_note);
  auto& machine = once_.machine_;
  auto id = id_;
  auto number = machine.note(Clock::now(), id, std::move(text));
  once_.pump();
  auto flight = once_.flights_.at(id);
  bool may_be_silent = machine.terms().without_redis == OnceWithoutRedis::optimistic;
  auto deadline =
      may_be_silent ? Clock::now() + machine.terms().patience : Clock::time_point::max();
  while (machine.state(id) == State::working && !machine.has_noted(id, number)) {
    if (Clock::now() >= deadline)
      co_return fail(Errc::unavailable, "{}: Redis does not answer", machine.name(id));
    co_await flight->changed.wait(deadline);
  }
  if (machine.has_noted(id, number)) co_return ok;
  co_return fail(Errc::lease_lost, "{}: the step is somebody else's", machine.name(id));
}

void OnceClaim::retry_after(std::chrono::milliseconds time) { retry_after_ = time; }

// A caller that waits for a flight, for as long as this object lives.
struct Once::Caller {
  Caller(Once& of, FlightPtr on) : once(of), flight(std::move(on)) {
    if (flight->callers++ == 0) once.machine_.want(flight->id);
    ++once.callers_;
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() {
    if (--flight->callers == 0 && once.machine_.knows(flight->id)) {
      once.machine_.leave(flight->id);
      if (!once.closed_) once.pump();
    }
    if (--once.callers_ == 0) once.idle_.notify();
  }
  Once& once;
  FlightPtr flight;
};

Once::Once(redis::Client& client, OnceTerms terms, std::string holder)
    : client_(client),
      machine_(std::move(terms), unique(std::move(holder)),
               client.settings().mode == redis::Mode::cluster),
      subscriber_(client),
      timer_(client.executor(), Clock::time_point::max()),
      idle_(client.executor()),
      tasks_(client.executor()) {
  follow_topology();
  subscriber_.subscribe(machine_.channel());
  tasks_.start("once.timer", keep_time());
  tasks_.start("once.messages", listen());
  tasks_.start("once.subscription", ask_when_subscribed());
  tasks_.start("once.topology", watch_topology());
}

Once::~Once() { ensure(closed_, "Once is closed before it is destroyed"); }

Async<OnceOutcome> Once::obtain(std::string name, OnceWork work, Clock::time_point deadline) {
  return fly(std::move(name), std::nullopt, std::move(work), deadline);
}

Async<OnceOutcome> Once::change(std::string name, OnceStep step, OnceWork work,
                                Clock::time_point deadline) {
  return fly(std::move(name), std::move(step), std::move(work), deadline);
}

Async<OnceOutcome> Once::fly(std::string name, std::optional<OnceStep> step, OnceWork work,
                             Clock::time_point deadline) {
  auto boarded = board(std::move(name), std::move(step), std::move(work));
  if (!boarded) co_return std::unexpected(boarded.error());
  Caller caller(*this, *std::move(boarded));
  auto& flight = *caller.flight;
  pump();
  while (!flight.outcome && !closed_ && Clock::now() < deadline)
    co_await flight.changed.wait(deadline);
  if (flight.outcome) co_return *flight.outcome;
  if (closed_) co_return fail(Errc::cancelled, "Once was closed");
  const auto& problem = machine_.problem(flight.id);
  if (problem) co_return fail(Errc::unavailable, "{}", problem->what);
  co_return fail(Errc::timeout, "{}: the deadline passed", machine_.name(flight.id));
}

// Returns the flight under way for the same wish, or a new one.
Result<Once::FlightPtr> Once::board(std::string name, std::optional<OnceStep> step, OnceWork work) {
  if (closed_) return fail(Errc::cancelled, "Once is closed");
  auto key = wish(name, step);
  auto found = joinable_.find(key);
  if (found != joinable_.end()) {
    const auto& flight = found->second;
    bool is_under_way = machine_.knows(flight->id) && !flight->outcome &&
                        (flight->callers > 0 || machine_.state(flight->id) == State::working);
    if (is_under_way) return flight;
  }
  auto id = machine_.begin(Clock::now(), std::move(name), std::move(step));
  if (!id) return std::unexpected(id.error());
  auto flight = std::make_shared<Flight>(*id, std::move(work), Event(client_.executor()));
  flights_[*id] = flight;
  joinable_[key] = flight;
  return flight;
}

// Call after giving the machine a fact: carries out what it wants.
void Once::pump() {
  while (auto request = machine_.next(Clock::now()))
    tasks_.start("once.request", send(*std::move(request)));
  for (auto id : machine_.take_changes())
    if (auto flight = flights_.find(id); flight != flights_.end()) on_flight(flight->second);
  if (machine_.flights() == 0) idle_.notify();
  if (machine_.wake_at() < timer_.expiry()) timer_.cancel();
}

void Once::on_flight(FlightPtr flight) {
  auto id = flight->id;
  bool is_known = machine_.knows(id);
  if (is_known && machine_.outcome(id) && !flight->outcome) {
    flight->outcome = machine_.outcome(id);
    const auto& outcome = *flight->outcome;
    if (!outcome)
      log::info("once.failed", "name", machine_.name(id), "why", outcome.error().what);
    else if (outcome->how != OnceHow::attached)
      log::info("once.settled", "name", machine_.name(id), "status", outcome->record.status, "how",
                name(outcome->how));
  }
  if (is_known && machine_.state(id) == State::working && !flight->is_at_work && !closed_) {
    flight->is_at_work = true;
    tasks_.start("once.work", work(flight));
  }
  flight->changed.notify();
  if (is_known && !flight->outcome) return;
  std::erase_if(joinable_, [&](const auto& entry) { return entry.second == flight; });
  if (!is_known) flights_.erase(id);
}

awaitable<void> Once::work(FlightPtr flight) {
  using namespace asio::experimental::awaitable_operators;
  auto id = flight->id;
  OnceClaim claim(*this, id);
  if (machine_.token(id) == FencingToken{})
    log::warn("once.began_alone", "name", machine_.name(id));
  else
    log::info("once.claimed", "name", machine_.name(id), "token", to_string(machine_.token(id)),
              "earlier", machine_.earlier(id) ? machine_.earlier(id)->status : "");
  auto stopping = stopped(flight);
  auto working = flight->work(claim);
  auto first = co_await (std::move(stopping) || std::move(working));
  flight->is_at_work = false;
  if (first.index() == 0) {
    log::warn("once.stopped", "name", machine_.name(id), "why", machine_.why_stopped(id));
    machine_.on_stopped(Clock::now(), id);
  } else {
    auto& result = std::get<1>(first);
    auto checked = result ? OnceMachine::check(*result) : std::unexpected(result.error());
    if (checked)
      machine_.on_left(Clock::now(), id, *std::move(result));
    else
      machine_.on_failed(Clock::now(), id, checked.error(), claim.retry_after_);
  }
  pump();
}

awaitable<void> Once::stopped(FlightPtr flight) {
  while (machine_.state(flight->id) == State::working) co_await flight->changed.wait();
}

awaitable<void> Once::send(OnceMachine::Request request) {
  auto id = request.id;
  auto reply = co_await run(std::move(request));
  follow_topology();
  machine_.on_reply(Clock::now(), id, reply);
  pump();
}

Async<redis::Reply> Once::run(OnceMachine::Request request) {
  auto options = redis::CallOptions().by(request.deadline).idempotent();
  if (request.is_renewal) options = options.lane(redis::Lane::renewal);
  auto reply = co_await client_.run(scripts::once, request.keys, request.args,
                                    options.unless_keys_are_split());
  if (reply || !LeaseSteps::are_needed(reply.error())) co_return reply;
  // The slot moves. One key decides, and others see what they saw before.
  request.keys.resize(1);
  co_return co_await client_.run(scripts::once, std::move(request.keys), std::move(request.args),
                                 options);
}

Async<OnceState> Once::ask(OnceMachine::Request request, Clock::time_point deadline) {
  if (closed_) co_return fail(Errc::cancelled, "Once is closed");
  request.deadline = deadline;
  auto key = request.keys[0];
  auto reply = co_await run(std::move(request));
  if (!reply) co_return std::unexpected(reply.error());
  auto state = OnceState::of(*reply);
  if (!state) co_return fail(Errc::protocol, "{} does not hold what it should", key);
  co_return *std::move(state);
}

Async<OnceRecord> Once::get(std::string name, Clock::time_point deadline) {
  if (auto checked = machine_.check(name); !checked) co_return std::unexpected(checked.error());
  auto state = co_await ask(machine_.to_get(name), deadline);
  if (!state) co_return std::unexpected(state.error());
  if (!state->is_done) co_return fail(Errc::not_found, "there is no {}", name);
  co_return state->as_record(std::move(name));
}

Async<OnceRecord> Once::replace(OnceRecord record, OnceLeft left, Clock::time_point deadline) {
  auto checked = machine_.check(record.name);
  if (checked) checked = OnceMachine::check(left);
  if (!checked) co_return std::unexpected(checked.error());
  auto state = co_await ask(machine_.to_replace(record, left), deadline);
  if (!state) co_return std::unexpected(state.error());
  if (!state->is_done) co_return fail(Errc::lease_lost, "{}: another version", record.name);
  co_return state->as_record(std::move(record.name));
}

Async<> Once::forget(OnceRecord record, Clock::time_point deadline) {
  OnceLeft nothing{.status = "", .bytes = ""};
  auto replaced = co_await replace(std::move(record), std::move(nothing), deadline);
  if (!replaced) co_return std::unexpected(replaced.error());
  co_return ok;
}

Async<> Once::refresh(OnceRecord record, Clock::time_point deadline) {
  if (auto checked = machine_.check(record.name); !checked)
    co_return std::unexpected(checked.error());
  auto state = co_await ask(machine_.to_refresh(record), deadline);
  if (!state) co_return std::unexpected(state.error());
  if (!state->is_done) co_return fail(Errc::lease_lost, "{}: another version", record.name);
  co_return ok;
}

std::shared_ptr<void> Once::on_change(std::function<void(const OnceRecord&)> action) {
  auto watcher = std::make_shared<std::function<void(const OnceRecord&)>>(std::move(action));
  watchers_.push_back(watcher);
  return watcher;
}

void Once::tell(const OnceRecord& record) {
  std::erase_if(watchers_, [](const auto& watcher) { return watcher.expired(); });
  auto watchers = watchers_;
  for (auto& each : watchers)
    if (auto watcher = each.lock()) (*watcher)(record);
}

// An answer is judged by the server that gave it, so the machine hears of a new server first.
void Once::follow_topology() {
  if (std::exchange(changes_seen_, client_.changes()) != client_.changes())
    machine_.on_connected(Clock::now(), client_.epoch());
}

awaitable<void> Once::keep_time() {
  for (;;) {
    timer_.expires_at(machine_.wake_at());
    boost::system::error_code interrupted;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, interrupted));
    pump();
  }
}

awaitable<void> Once::listen() {
  for (;;) {
    auto message = co_await subscriber_.next();
    if (!message) co_return;
    if (message->kind == redis::Message::Kind::gap) {
      machine_.on_gap(Clock::now());
      tell({});
    } else {
      machine_.on_message(Clock::now(), message->payload);
      auto told = watchers_.empty() ? std::nullopt : OnceState::of_message(message->payload);
      if (told) tell(told->second.as_record(told->first));
    }
    pump();
  }
}

// Messages from before the subscription was confirmed were missed.
awaitable<void> Once::ask_when_subscribed() {
  auto settled = co_await subscriber_.settled(Clock::time_point::max());
  if (!settled) {
    if (settled.error().code != Errc::cancelled)
      log::warn("once.not_subscribed", "channel", machine_.channel(), "why", settled.error().what);
    co_return;
  }
  machine_.on_gap(Clock::now());
  pump();
}

awaitable<void> Once::watch_topology() {
  for (;;) {
    co_await client_.changed(changes_seen_);
    follow_topology();
    pump();
  }
}

awaitable<void> Once::close() {
  if (closed_) co_return;
  closed_ = true;
  auto flights = flights_;
  for (auto& [id, flight] : flights) {
    if (machine_.knows(id)) machine_.abandon(id);
    flight->changed.notify();
  }
  pump();
  auto deadline = Clock::now() + 1s;
  while (machine_.flights() > 0 && Clock::now() < deadline) co_await idle_.wait(deadline);
  tasks_.stop();
  co_await subscriber_.close();
  co_await tasks_.join();
  while (callers_ > 0) co_await idle_.wait();
}

std::shared_ptr<void> Once::publish(Metrics& metrics) const {
  auto counter = [&](const char* what, const char* help) {
    return metrics.counter(fmt::format("warren_once_{}_total", what), help);
  };
  return metrics.on_collect(
      [this, claimed = counter("claims", "Steps that were granted to this process."),
       taken_over = counter("takeovers", "Of these, those that somebody else had begun."),
       attached = counter("attachments", "Wishes that what was there fulfilled."),
       failed = counter("failures", "Steps whose work failed."),
       lost = counter("losses", "Steps that were lost while their work ran."),
       refused = counter("refusals", "Results that came too late: somebody else had the step."),
       alone = counter("alone", "Creations that began without Redis."),
       recorded = counter("records", "Results that Redis has."),
       open = metrics.gauge("warren_once_open", "Wishes under way.")]() mutable {
        const auto& now = machine_.counters();
        claimed.raise_to(double(now.claimed));
        taken_over.raise_to(double(now.taken_over));
        attached.raise_to(double(now.attached));
        failed.raise_to(double(now.failed));
        lost.raise_to(double(now.lost));
        refused.raise_to(double(now.refused));
        alone.raise_to(double(now.alone));
        recorded.raise_to(double(now.recorded));
        open.set(double(machine_.flights()));
      });
}

}  // namespace warren
