#include "proof/torture/lease_sim.h"

#include "primitives/lease/machine.h"
#include "primitives/lease/scripts.h"
#include "proof/sim/servers.h"

namespace warren::torture {

namespace {

using history::AttemptId;
using history::LeaseHistory;
using history::LockId;
using history::ProcessId;
using history::Token;
using sim::Words;

constexpr auto session_ttl = 400ms;
constexpr auto own_ttl = 300ms;
constexpr LockId lock_count = 2;
// Short ones find as much as long ones in the same time, and more of them are different.
constexpr auto faults_least = 200ms, faults_most = 600ms, calm_for = 800ms;

Token token_of(FencingToken token) { return {token.epoch, token.counter}; }

constexpr double often_slow = 0.03;

// How bad this schedule is. Two in five have servers that never lose anything, so that the strict
// rules are judged too.
sim::Weather weather_for(sim::World& world) {
  sim::Weather weather;
  if (world.chance(0.3)) weather.slow = often_slow;
  weather.breaks = world.chance(0.7) ? 5 : 0;
  weather.stops = world.chance(0.3) ? 1 : 0;
  weather.stop_most = weather.down_most = weather.step_most = weather.stale_most = 600ms;
  weather.news_most = 400ms;
  if (world.chance(0.6)) {
    weather.failovers = world.chance(0.7) ? 1.5 : 0;
    weather.restarts = world.chance(0.3) ? 1 : 0;
    weather.loses_data = world.chance(0.5) ? 0.5 : 0;
    // A server that forgets the last token while its clock goes back repeats tokens: see
    // docs/guarantees.md. Each alone is harmless.
    if (weather.loses_data == 0) {
      weather.clock_steps = world.chance(0.3) ? 1 : 0;
      weather.skew_most = world.chance(0.3) ? 200ms : 0ms;
    }
  }
  return weather;
}

bool is_lossy(const sim::Weather& weather) {
  return weather.failovers > 0 || weather.restarts > 0 || weather.clock_steps > 0;
}

// A resource outside of Redis that remembers the newest token.
struct Resource {
  Token newest;
};

class Simulation;

// One process: a lease machine, and somebody who wants leases, uses them and gives them back.
class Participant {
 public:
  Participant(Simulation& simulation, ProcessId id);
  void begin_life();
  void die();
  void sleep(Clock::duration time);
  void miss_messages() { connection_.break_link(sim::Socket::messages); }
  bool is_dead() const { return connection_.is_closed(); }

 private:
  struct Want {
    LeaseId lease = 0;
    std::string name;  // by which the server knows it
    AttemptId attempt = 0;
    LockId lock = 0;
    bool is_held = false, is_told = false;
    bool is_enqueued = false, may_judge_place = true;
    std::string session;  // that it was enqueued under
    Clock::time_point begun, deadline, release_at;
    FencingToken token;
  };

  std::uint64_t epoch() const;
  void want_something();
  void pump();
  void send(LeaseMachine::Request request);
  void note_place(const std::string& session, const Result<redis::Reply>& reply);
  void look();
  void use();
  void let_go();
  void set_timer();

  Simulation& all_;
  ProcessId id_;
  sim::Connection& connection_;
  LeaseMachine machine_;
  std::set<std::string> subscribed_;
  std::optional<Want> want_;
  Clock::time_point wakes_at_ = Clock::time_point::max();  // by its timer
  Clock::time_point awake_at_{};                           // after its pause
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, LeaseMistake planted)
      : world(seed),
        mistake(planted),
        weather(weather_for(world)),
        servers(world, {.replicas = is_lossy(weather) ? 2 : 0, .weather = weather}) {
    if (mistake == LeaseMistake::counter_regresses)
      script = spoilt("math.max(counter + 1, now)", "counter + 1");
  }

  Schedule run();

  sim::World world;
  LeaseMistake mistake;
  sim::Weather weather;
  sim::Servers servers;
  LeaseHistory history;
  Resource resources[lock_count];
  redis::Script script = scripts::lease;

 private:
  static redis::Script spoilt(std::string_view what, std::string_view with) {
    auto source = scripts::lease.source();
    auto at = source.find(what);
    ensure(at != source.npos, "the script has what is to be spoilt");
    return {"spoilt", source.replace(at, what.size(), with)};
  }
  void add_participant();
  void kill_some();
  void pause_some();
  void cut_some();

  std::vector<std::unique_ptr<Participant>> participants_;
  ProcessId last_process_ = 0;
  bool has_faults_ = true;
};

SessionTerms terms_of(ProcessId id) { return {fmt::format("p{}", id), session_ttl}; }

LeaseFlaws flaws_of(LeaseMistake mistake) {
  LeaseFlaws flaws;
  flaws.deadline_from_reply = mistake == LeaseMistake::deadline_from_reply;
  flaws.blind_release = mistake == LeaseMistake::blind_release;
  flaws.ignores_gap = mistake == LeaseMistake::ignores_gap;
  return flaws;
}

Participant::Participant(Simulation& simulation, ProcessId id)
    : all_(simulation),
      id_(id),
      connection_(simulation.servers.connect()),
      machine_(terms_of(id), flaws_of(simulation.mistake)) {
  connection_.on_message = [this](const sim::Message& message) {
    machine_.on_grant(message.payload, all_.world.now());
    pump();
  };
  connection_.on_gap = connection_.on_settled = [this] {
    machine_.on_gap(all_.world.now());
    pump();
  };
  connection_.on_connected = [this] {
    machine_.on_connected(epoch(), all_.world.now());
    pump();
  };
}

std::uint64_t Participant::epoch() const {
  return all_.mistake == LeaseMistake::counter_regresses ? 0 : connection_.epoch();
}

void Participant::begin_life() {
  machine_.on_connected(epoch(), all_.world.now());
  want_something();
}

void Participant::die() {
  all_.history.killed(all_.world.now(), id_);
  connection_.close();
}

void Participant::sleep(Clock::duration time) {
  auto now = all_.world.now();
  if (now < awake_at_) return;
  awake_at_ = now + time;
  all_.history.paused(now, id_);
  connection_.pause(time);
  all_.world.after(time, [this] {
    if (!is_dead()) all_.history.resumed(all_.world.now(), id_);
  });
}

void Participant::want_something() {
  auto& world = all_.world;
  connection_.after(world.between(0ms, 150ms), [this] {
    auto& w = all_.world;
    Want want;
    want.lock = LockId(w.below(lock_count));
    want.begun = w.now();
    LeaseTerms terms{fmt::format("{{l}}:{}", want.lock), fmt::format("p{}", id_)};
    if (want.lock % 2 == 1) terms.ttl = own_ttl;
    bool waits = w.chance(0.8);
    auto patience = w.now() + (waits ? w.between(20ms, 2s) : 400ms);
    want.attempt = all_.history.begun(w.now(), id_, want.lock, patience);
    auto lease = machine_.begin(std::move(terms), waits, patience, w.now());
    ensure(lease.has_value(), "these terms are fine");
    want.lease = *lease;
    want.name = fmt::format("p{}/{}", id_, want.lease);
    want_ = std::move(want);
    pump();
  });
}

void Participant::pump() {
  while (auto request = machine_.next_request()) send(std::move(*request));
  for (const auto& channel : machine_.grant_channels())
    if (subscribed_.insert(channel).second) connection_.ssubscribe(channel);
  machine_.take_changes();
  look();
  while (auto request = machine_.next_request()) send(std::move(*request));
  set_timer();
}

void Participant::send(LeaseMachine::Request request) {
  auto options = redis::CallOptions().idempotent();
  if (request.is_renewal) options = options.lane(redis::Lane::renewal);
  auto& args = request.args;
  std::string session;  // under which it is put in line
  if (!request.keys.empty() && args[0] == "acquire" && args[7] != "-" && want_ &&
      args[1] == want_->name)
    session = args[4];
  auto words = request.keys.empty()
                   ? std::move(args)
                   : sim::words_of(all_.script, std::move(request.keys), std::move(args));
  connection_.call(
      std::move(words), request.deadline,
      [this, id = request.id, lease = want_ ? want_->lease : 0,
       asked_under = std::move(session)](Result<redis::Reply> reply) {
        if (want_ && want_->lease == lease && !asked_under.empty()) note_place(asked_under, reply);
        machine_.on_reply(id, std::move(reply), true, all_.world.now());
        pump();
      },
      options);
}

// Where the server put it in the line, by the server's own clock; unless an answer was lost, and
// with it the knowledge of when.
void Participant::note_place(const std::string& session, const Result<redis::Reply>& reply) {
  if (!reply) want_->may_judge_place = false;
  if (!want_->may_judge_place || reply->items[0].number == 1 || want_->session == session) return;
  want_->session = session;
  // In one microsecond several may come.
  auto place_us = std::uint64_t(reply->items[3].number);
  Token place{connection_.epoch(), place_us * 100 + std::uint64_t(reply->items[2].number)};
  all_.history.enqueued(all_.world.now(), want_->attempt, place);
}

// Writes down what changed, as the one who has the lease sees it.
void Participant::look() {
  if (!want_) return;
  auto& want = *want_;
  auto now = all_.world.now();
  auto state = machine_.state(want.lease);
  bool is_held = state == LeaseState::held || state == LeaseState::uncertain;
  if (is_held && !want.is_held) {
    want.is_held = true;
    want.token = machine_.token(want.lease);
    want.deadline = machine_.deadline(want.lease);
    all_.history.granted(now, want.attempt, {token_of(want.token), want.begun, want.deadline});
    connection_.after(all_.world.between(0ms, 60ms), [this, id = want.lease] {
      if (want_ && want_->lease == id) use();
    });
    want.release_at = now + all_.world.between(1ms, all_.world.chance(0.2) ? 800ms : 50ms);
    connection_.at(want.release_at, [this, id = want.lease] {
      if (want_ && want_->lease == id && want_->is_held) let_go();
    });
  } else if (is_held) {
    if (auto token = machine_.token(want.lease); token != want.token) {
      want.token = token;
      all_.history.raised(now, want.attempt, token_of(token), want.begun);
    }
    if (auto deadline = machine_.deadline(want.lease); deadline > want.deadline) {
      want.deadline = deadline;
      all_.history.renewed(now, want.attempt, deadline);
    }
  } else if (state == LeaseState::ended) {
    if (want.is_held)
      all_.history.lost(now, want.attempt);
    else
      all_.history.ended(now, want.attempt);
    machine_.leave(want.lease, now);
    want_.reset();
    want_something();
  }
}

// What it does under the lease arrives at the resource at once or late.
void Participant::use() {
  if (!want_ || !want_->is_held) return;
  auto& world = all_.world;
  auto attempt = want_->attempt;
  auto lock = want_->lock;
  auto token = token_of(want_->token);
  world.after(world.chance(0.1) ? world.between(0ms, 1s) : world.between(0ms, 2ms),
              [&all = all_, attempt, lock, token] {
                auto& newest = all.resources[lock].newest;
                auto now = all.world.now();
                if (token < newest && all.mistake != LeaseMistake::token_not_checked)
                  return all.history.rejected(now, attempt, token, now);
                newest = std::max(newest, token);
                all.history.accepted(now, attempt, token, now);
              });
  connection_.after(world.between(1ms, 80ms), [this, id = want_->lease] {
    if (want_ && want_->lease == id) use();
  });
}

void Participant::let_go() {
  auto now = all_.world.now();
  all_.history.released(now, want_->attempt);
  machine_.leave(want_->lease, now);
  want_.reset();
  want_something();
  pump();
}

void Participant::set_timer() {
  auto wake = machine_.wake_at();
  if (wake >= wakes_at_) return;  // then it looks again
  wakes_at_ = wake;
  connection_.at(wake, [this, wake] {
    if (wake != wakes_at_) return;
    wakes_at_ = Clock::time_point::max();
    if (machine_.wake_at() > all_.world.now()) return set_timer();
    machine_.on_time(all_.world.now());
    pump();
  });
}

void Simulation::add_participant() {
  participants_.push_back(std::make_unique<Participant>(*this, ++last_process_));
  participants_.back()->begin_life();
}

void Simulation::kill_some() {
  world.after(world.between(200ms, 1500ms), [this] {
    if (!has_faults_) return;
    auto& victim = participants_[world.below(participants_.size())];
    if (!victim->is_dead()) {
      victim->die();
      add_participant();
    }
    kill_some();
  });
}

// Around the ttl, where it matters most.
void Simulation::pause_some() {
  world.after(world.between(0ms, 1s), [this] {
    if (!has_faults_) return;
    auto& victim = participants_[world.below(participants_.size())];
    if (!victim->is_dead()) victim->sleep(world.between(0ms, 2 * session_ttl));
    pause_some();
  });
}

// No excuse for anybody: whoever waits asks again when the messages come back. So this goes on to
// the end.
void Simulation::cut_some() {
  world.after(world.between(0ms, 300ms), [this] {
    auto& victim = participants_[world.below(participants_.size())];
    if (!victim->is_dead()) victim->miss_messages();
    cut_some();
  });
}

Schedule Simulation::run() {
  auto count = 2 + world.below(3);
  for (std::uint64_t i = 0; i < count; ++i) add_participant();
  servers.begin_faults();
  if (world.chance(0.5)) kill_some();
  if (world.chance(0.5)) pause_some();
  if (world.chance(0.5)) cut_some();
  auto begin = world.now();
  auto end = begin + world.between(faults_least, faults_most);
  world.run_until(end);
  servers.end_faults();
  has_faults_ = false;
  // What went wrong last takes its time to mend. Where a clock stepped back, what was granted
  // before lasts longer by so much.
  auto mended = end + 100ms;
  if (weather.stops > 0 || is_lossy(weather))
    mended += std::max(weather.stop_most, weather.down_most);
  if (weather.clock_steps > 0) mended += weather.step_most;
  world.run_until(mended + calm_for);

  // From a release to the grant: an answer before it, the release itself and the message may each
  // take as long as the slowest.
  auto wake = weather.slow == often_slow ? 3 * weather.slow_most + 100ms : 200ms;
  history::LeaseBounds bounds{.ttl = session_ttl, .wake = wake, .slack = 1ms};
  bounds.excused.push_back({begin, mended});
  if (is_lossy(weather)) {
    bounds.lossy.push_back({begin, mended + weather.stale_most});
    // Whoever has not heard of a new primary goes on with the old one.
    bounds.lossy_overlap = weather.news_most + session_ttl;
  }
  history.sort();
  history::LeaseJudge judge(history, bounds);
  return {history.events().size(), judge.first_violation()};
}

}  // namespace

Schedule simulate_leases(std::uint64_t seed, LeaseMistake mistake) {
  return Simulation(seed, mistake).run();
}

}  // namespace warren::torture
