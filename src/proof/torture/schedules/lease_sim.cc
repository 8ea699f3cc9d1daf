#include "proof/torture/schedules/lease_sim.h"

#include <sstream>

#include "primitives/lease/fence.h"
#include "primitives/lease/lease.h"
#include "primitives/lease/machine.h"
#include "primitives/lease/scripts.h"
#include "primitives/lease/steps.h"
#include "proof/sim/servers.h"
#include "redis/resp/refusal.h"

namespace warren::torture {

namespace {

using history::AttemptId;
using history::LeaseHistory;
using history::LockId;
using history::ProcessId;
using history::Token;
using history::Violation;
using history::Window;
using Kind = history::LeaseEvent::Kind;
using sim::FaultKind;
using sim::Words;

constexpr auto session_ttl = 400ms;
constexpr auto own_ttl = 300ms;
constexpr auto planted_delay = 50ms;
constexpr LockId lock_count = 2;
constexpr auto retention_ms = "86400000";  // of fences, as in lease.cc
// Short schedules find as much as long ones in the same time, and more of them are different.
constexpr auto faults_least = 200ms, faults_most = 600ms, calm_for = 400ms, probe_for = 1000ms;
constexpr double often_slow = 0.03;

// What else a schedule may have, after the faults of servers and links in the bits.
enum Extra : std::size_t {
  process_killed = sim::fault_count,
  messages_missed,
  fence_expired,
  replicated_lease,
  conditional_lease_,
  stale_write_refused,
  lower_counter,   // in a higher epoch
  lease_in_steps,  // because its keys were on two servers
  bit_count,
};
static_assert(bit_count <= 64);

const char* name_of(std::size_t bit) {
  static constexpr std::array<const char*, bit_count - sim::fault_count> names{
      "process killed",
      "messages missed",
      "fence expired",
      "replicated lease",
      "conditional lease",
      "stale write refused",
      "higher epoch, lower counter",
      "lease in steps"};
  return bit < sim::fault_count ? sim::name(FaultKind(bit)) : names[bit - sim::fault_count];
}

Token token_of(FencingToken token) { return {token.epoch, token.counter}; }

std::string lease_key(LockId lock) { return fmt::format("{{l{}}}:lease", lock); }
std::string log_key(LockId lock) { return fmt::format("{{l{}}}:log", lock); }

// The properties of a schedule, drawn from its seed. Most have one or two kinds of trouble with
// servers, and some none: much at once excuses much.
struct Plan {
  sim::Weather weather;
  int replicas = 0;
  bool is_cluster = false;
  bool kills, pauses, misses_messages;
  double evictions = 0, expired_fences = 0;  // per second
  double replicated = 0, conditional = 0;    // fraction of the leases
};

Plan plan_of(sim::World& world) {
  constexpr double often = 5;  // per second: one in most schedules that have it at all
  Plan plan;
  auto& weather = plan.weather;
  auto some = [&](double chance) { return world.chance(chance) ? often : 0; };
  if (world.chance(0.3)) weather.slow = often_slow;
  if (world.chance(0.08)) weather.bandwidth = 10'000 + 40'000 * world.unit();
  if (world.chance(0.5)) weather.drift_most = 0.004;
  weather.breaks = some(0.5);
  weather.cut_offs = some(0.3);
  plan.kills = world.chance(0.4);
  plan.pauses = world.chance(0.4);
  plan.misses_messages = world.chance(0.4);
  if (world.chance(0.2)) plan.conditional = 0.5;

  weather.stops = some(0.12);
  weather.restarts = some(0.12);
  weather.failovers = some(0.4);
  weather.refusals = some(0.35);
  plan.is_cluster = world.chance(0.3);
  // The tokens of a client redirected by MOVED to a server that came with a failover are kept apart
  // only by the clock, until the client has seen the epoch: see docs/guarantees.md. So only one of
  // the two occurs.
  if (plan.is_cluster && weather.failovers == 0) {
    weather.half_moves = some(0.7);
    weather.moves = weather.half_moves > 0 ? some(0.3) : often;
  }
  // A server that forgets the last token while its clock goes back repeats tokens: see
  // docs/guarantees.md. Each alone is harmless.
  if (world.chance(weather.failovers > 0 ? 0.3 : 0.5)) {
    weather.loses_data = world.chance(0.4) ? 1 : 0;
    if (weather.loses_data > 0) weather.restarts = often;
    weather.restores = 2 * some(0.35);  // a copy, and later back to it
    plan.evictions = some(0.3);
    plan.expired_fences = some(0.4);
  } else {
    weather.clock_steps = some(0.25);
    bool are_skewed = weather.failovers > 0 || world.chance(weather.half_moves > 0 ? 0.3 : 0.7);
    weather.skew_most = are_skewed ? 800ms : 0ms;
  }
  bool has_moves = weather.moves > 0 || weather.half_moves > 0;
  if (weather.failovers > 0 || has_moves || world.chance(0.2)) plan.replicas = 2;
  // A counter goes back if the last grants are lost and the next clock is behind: both together.
  bool loses_grants = weather.skew_most > 0ms || world.chance(0.7);
  if (weather.failovers > 0 && loses_grants) weather.long_lag = 0.9;
  if (plan.replicas > 0 && world.chance(0.3)) plan.replicated = 0.5;
  weather.stop_most = weather.down_most = weather.step_most = weather.stale_most = 500ms;
  weather.refusal_most = 300ms;
  weather.cut_most = 2 * session_ttl;
  weather.news_most = 400ms;
  return plan;
}

// A resource outside Redis that remembers the newest token.
struct Resource {
  FencingToken newest;
  FencingToken highest;  // that it has accepted
};

class Simulation;

// One process: a lease machine, and its user that wants leases, uses them and gives them back.
class Participant {
 public:
  Participant(Simulation& simulation, ProcessId id);
  void begin_life();
  void die();
  void sleep(Clock::duration time);
  void miss_messages() { connection_.break_link(sim::Socket::messages); }
  bool is_dead() const { return connection_.is_closed(); }
  Clock::time_point awake_at() const { return awake_at_; }
  // Gives back what it has, and wants nothing more.
  void retire();
  // Asks for a lock that no other process wants any more, and gives it back.
  void probe(LockId lock);
  bool was_granted() const { return was_granted_; }
  bool wants(std::string_view attempt) const { return want_ && want_->name == attempt; }
  std::size_t leases() const { return machine_.leases(); }
  ProcessId id() const { return id_; }

 private:
  struct Want {
    LeaseId lease = 0;
    std::string name{};  // by which the server knows it
    AttemptId attempt = 0;
    LockId lock = 0;
    bool is_held = false;
    bool may_judge_place = true, has_place = false;
    Clock::time_point begun{}, deadline{}, release_at{};
    FencingToken token{};
  };

  std::uint64_t epoch() const;
  void want_something();
  void begin_attempt();
  void begin(Want want, LeaseTerms terms, bool waits, Clock::time_point patience);
  void pump();
  void send(LeaseMachine::Request request);
  void send_in_steps(std::shared_ptr<LeaseSteps> steps, std::uint64_t request,
                     Clock::time_point deadline, redis::CallOptions options);
  void send_replicated(LeaseMachine::Request request, Words words, redis::CallOptions options,
                       std::optional<LockId> takes);
  void answer(std::uint64_t request, Result<redis::Reply> reply, bool has_all_replicas = true);
  void spoil(Words& words) const;
  // Grows when an answer may have been lost, or when servers' data or clocks changed.
  std::size_t era() const;
  void note_place(std::size_t since, const Result<redis::Reply>& reply);
  void note_handed(const sim::Message& message);
  void look();
  void use();
  void write(AttemptId attempt, LeaseId lease, LockId lock, FencingToken token);
  void write_outside(AttemptId attempt, LockId lock, FencingToken token);
  void let_go();
  void set_timer();

  Simulation& all_;
  ProcessId id_;
  sim::Connection& connection_;
  LeaseMachine machine_;
  std::set<std::string> subscribed_;
  std::optional<Want> want_;
  bool is_retired_ = false, was_granted_ = false;
  std::size_t connections_ = 0;                            // how many so far
  Clock::time_point wakes_at_ = Clock::time_point::max();  // by its timer
  Clock::time_point awake_at_{};                           // after its pause
};

// One place in a script that a mistake replaces.
struct Spoiling {
  LeaseMistake mistake;
  std::string_view what, with;
};
constexpr Spoiling spoilt_lease[] = {
    {LeaseMistake::unchecked_release, "local is_mine = shown and",
     "local is_mine = what == 'release' or shown and"},
    {LeaseMistake::unchecked_renewal, "local is_mine = shown and",
     "local is_mine = what == 'renew' or shown and"},
    {LeaseMistake::leaves_queue_entry, "if entry then call('LREM', queue, 0, entry) end", ""},
    {LeaseMistake::counter_regresses, "math.max(counter + 1, now)", "counter + 1"},
};
constexpr Spoiling spoilt_fence[] = {
    {LeaseMistake::counter_only_fence, "e > epoch or e == epoch and c > counter", "c > counter"},
    {LeaseMistake::counter_only_fence, "e < epoch or c < counter", "c < counter"},
};

redis::Script spoil(redis::Script script, std::span<const Spoiling> places, LeaseMistake mistake) {
  for (auto& place : places) {
    if (place.mistake != mistake) continue;
    auto source = script.source();
    auto at = source.find(place.what);
    ensure(at != source.npos, "the script has what is to be spoilt");
    script = {"spoilt", source.replace(at, place.what.size(), place.with)};
  }
  return script;
}

class Simulation {
 public:
  Simulation(std::uint64_t seed, LeaseMistake planted)
      : world(seed),
        mistake(planted),
        plan(plan_of(world)),
        servers(
            world,
            {.replicas = plan.replicas, .weather = plan.weather, .is_cluster = plan.is_cluster}),
        script(spoil(scripts::lease, spoilt_lease, planted)),
        guard(behind_fence(scripts::guard)),
        if_open(conditional_lease("if_open",
                                  "if redis.call('EXISTS', KEYS[4]) == 1 then\n"
                                  "  return redis.error_reply('CLOSED by ' .. ARGV[11])\n"
                                  "end\n"
                                  "return lease(KEYS, ARGV)")) {
    if (mistake == LeaseMistake::counter_only_fence) guard = spoil(guard, spoilt_fence, mistake);
    if (mistake != LeaseMistake::none) if_open = spoil(if_open, spoilt_lease, mistake);
    servers.on_forget = [this](const sim::ModelRedis& model) {
      judge_logs(model);
      forget_parted_logs(model);
    };
    // Only the lease's script publishes, and its first key is the lease's.
    servers.on_published = [this](const Words& words, const sim::Message& message) {
      auto lock = words[3] == lease_key(0) ? LockId(0) : LockId(1);
      handed_.push_back({lock, world.now()});
      messages_.push_back(message.payload);
      if (nobody_wants(message) && may_have_come_back())
        taken_.push_back({lock, {world.now(), world.now() + session_ttl}});
    };
  }

  LeaseSchedule run();

  void found(const char* invariant, std::string what) {
    if (!violation_) violation_ = Violation{invariant, std::move(what), {}};
  }
  void met(std::size_t bit) { faults_ |= std::uint64_t(1) << bit; }
  // How often servers' data or clocks have changed.
  std::size_t era() const;
  void note_grant(LockId lock, FencingToken token);
  void note_taken(LockId lock, Clock::time_point since, bool is_answered);
  // When a server made the hand-over that this message announces; no two messages are equal.
  Clock::time_point sent_at(const sim::Message& message) const;
  bool stepped_forward(Window window) const;
  // It was handed to a live process that had left the line.
  bool nobody_wants(const sim::Message& message) const;
  // A server that lost writes has processes in line again that had left, until their sessions end.
  bool may_have_come_back() const;
  // From its grant to its deadline an owner may believe in what the server has ended.
  void note_misled(AttemptId attempt, Window window) { misled_.push_back({attempt, window}); }

  sim::World world;
  LeaseMistake mistake;
  Plan plan;
  sim::Servers servers;
  LeaseHistory history;
  Resource resources[lock_count];
  redis::Script script, guard, if_open;

 private:
  void add_participant();
  void kill_some();
  void pause_some();
  void cut_some();
  void evict_some();
  void expire_fences();
  Clock::time_point mended() const;
  history::LeaseBounds bounds() const;
  void judge_logs(sim::ModelRedis model);
  void forget_parted_logs(sim::ModelRedis forgetting);
  void judge_leaks();

  std::vector<std::unique_ptr<Participant>> participants_;
  ProcessId last_process_ = 0;
  bool has_faults_ = true;
  std::optional<Violation> violation_;
  std::uint64_t faults_ = 0;
  FencingToken newest_grant_[lock_count];
  std::vector<history::LeaseBounds::Taken> taken_;
  std::vector<history::LeaseBounds::Handed> handed_;
  std::vector<std::string> messages_;  // the message that announced each of those
  struct Misled {
    AttemptId attempt;
    Window window;
  };
  std::vector<Misled> misled_;
};

SessionTerms terms_of(const Simulation& all, ProcessId id) {
  SessionTerms terms{fmt::format("p{}", id), session_ttl};
  terms.is_cluster = all.plan.is_cluster;
  if (all.mistake == LeaseMistake::believes_longer) terms.ttl += planted_delay;
  return terms;
}

LeaseFlaws flaws_of(LeaseMistake mistake) {
  LeaseFlaws flaws;
  flaws.deadline_from_reply = mistake == LeaseMistake::deadline_from_reply;
  flaws.blind_release = mistake == LeaseMistake::blind_release;
  flaws.ignores_gap = mistake == LeaseMistake::ignores_gap;
  flaws.unshown_claim = mistake == LeaseMistake::unshown_claim;
  return flaws;
}

Participant::Participant(Simulation& simulation, ProcessId id)
    : all_(simulation),
      id_(id),
      connection_(simulation.servers.connect()),
      machine_(terms_of(simulation, id), flaws_of(simulation.mistake)) {
  connection_.on_message = [this](const sim::Message& message) {
    bool was_held = want_ && want_->is_held;
    machine_.on_grant(message.payload, all_.world.now());
    pump();
    if (!was_held && want_ && want_->is_held) note_handed(message);
  };
  connection_.on_gap = connection_.on_settled = [this] {
    machine_.on_gap(all_.world.now());
    pump();
  };
  connection_.on_connected = [this] {
    ++connections_;
    machine_.on_connected(epoch(), all_.world.now());
    pump();
  };
}

std::uint64_t Participant::epoch() const {
  return all_.mistake == LeaseMistake::counter_regresses ? 0 : connection_.epoch();
}

std::size_t Participant::era() const { return all_.era() + connections_; }

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

void Participant::retire() {
  is_retired_ = true;
  if (!want_) return;
  if (want_->is_held)
    all_.history.released(all_.world.now(), want_->attempt);
  else
    all_.history.ended(all_.world.now(), want_->attempt);
  machine_.leave(want_->lease, all_.world.now());
  want_.reset();
  pump();
}

void Participant::want_something() {
  connection_.after(all_.world.between(0ms, 150ms), [this] {
    if (!is_retired_) begin_attempt();
  });
}

void Participant::begin_attempt() {
  auto& w = all_.world;
  Want want;
  want.lock = LockId(w.below(lock_count));
  want.begun = w.now();
  LeaseTerms terms{lease_key(want.lock), fmt::format("p{}", id_)};
  if (w.chance(0.5)) terms.ttl = own_ttl;
  if (terms.ttl && all_.mistake == LeaseMistake::believes_longer) *terms.ttl += planted_delay;
  bool waits = w.chance(0.8);
  if (!waits && w.chance(all_.plan.conditional)) {
    terms.condition = {&all_.if_open, {fmt::format("{{l{}}}:closed", want.lock)}, {"nobody"}};
    all_.met(conditional_lease_);
  }
  terms.replicated = w.chance(all_.plan.replicated);
  auto patience = w.now() + (waits ? w.between(20ms, 2s) : 400ms);
  begin(std::move(want), std::move(terms), waits, patience);
}

void Participant::probe(LockId lock) {
  retire();
  machine_.on_connected(epoch(), all_.world.now());
  Want want{.lock = lock, .begun = all_.world.now()};
  LeaseTerms terms{lease_key(lock), fmt::format("p{}", id_)};
  begin(std::move(want), std::move(terms), false, all_.world.now() + probe_for);
}

void Participant::begin(Want want, LeaseTerms terms, bool waits, Clock::time_point patience) {
  auto now = all_.world.now();
  want.attempt = all_.history.begun(now, id_, want.lock, patience);
  auto lease = machine_.begin(std::move(terms), waits, patience, now);
  ensure(lease.has_value(), "these terms are fine");
  want.lease = *lease;
  want.name = fmt::format("p{}/{}", id_, want.lease);
  want_ = std::move(want);
  pump();
}

void Participant::pump() {
  while (auto request = machine_.next_request()) send(std::move(*request));
  for (const auto& channel : machine_.grant_channels())
    if (subscribed_.insert(channel).second) connection_.ssubscribe(channel);
  machine_.take_changes();
  machine_.take_refusals();
  look();
  while (auto request = machine_.next_request()) send(std::move(*request));
  set_timer();
}

// Changes the words to what a mistake of the machine would send.
void Participant::spoil(Words& words) const {
  for (auto& word : words) {
    if (all_.mistake == LeaseMistake::believes_longer) {
      if (word == "450") word = "400";
      if (word == "350") word = "300";
    } else if (all_.mistake == LeaseMistake::short_retention) {
      if (word == retention_ms) word = "100";
    } else if (all_.mistake == LeaseMistake::reuses_generation) {
      auto at = word.find("warren:session:");
      auto slash = at == word.npos ? at : word.find('/', at);
      if (slash != word.npos) word.replace(slash + 1, word.npos, "1");
    }
  }
}

void Participant::send(LeaseMachine::Request request) {
  auto options = redis::CallOptions().idempotent();
  if (request.is_renewal) options = options.lane(redis::Lane::renewal);
  auto& args = request.args;
  if (all_.mistake != LeaseMistake::none) spoil(args);
  bool asks_for_place = !request.keys.empty() && args[0] == "acquire" && args[7] != "-" && want_ &&
                        args[1] == want_->name;
  std::optional<LockId> takes;
  if (request.replicated && args[0] == "acquire" && want_) takes = want_->lock;
  const auto& script = request.script ? *request.script : all_.script;
  // As LeaseSession does, if no other condition must hold at the same time.
  std::shared_ptr<LeaseSteps> steps;
  if (all_.plan.is_cluster && !request.keys.empty() && !request.script && !request.replicated)
    steps = std::make_shared<LeaseSteps>(request, flaws_of(all_.mistake));
  auto words = request.keys.empty()
                   ? std::move(args)
                   : sim::words_of(script, std::move(request.keys), std::move(args));
  if (all_.mistake != LeaseMistake::none && request.keys.empty()) spoil(words);
  if (request.replicated)
    return send_replicated(std::move(request), std::move(words), options, takes);
  connection_.call(
      std::move(words), request.deadline,
      [this, id = request.id, lease = want_ ? want_->lease : 0, since = era(), asks_for_place,
       steps, deadline = request.deadline, options](Result<redis::Reply> reply) {
        if (!reply && steps && LeaseSteps::are_needed(reply.error()))
          return send_in_steps(steps, id, deadline, options);
        if (want_ && want_->lease == lease && asks_for_place) note_place(since, reply);
        answer(id, std::move(reply));
      },
      steps ? options.unless_keys_are_split() : options);
}

void Participant::send_in_steps(std::shared_ptr<LeaseSteps> steps, std::uint64_t request,
                                Clock::time_point deadline, redis::CallOptions options) {
  auto step = steps->next();
  if (!step) return answer(request, steps->answer());
  all_.met(lease_in_steps);
  auto words = std::move(step->args);
  if (step->script) words = sim::words_of(*step->script, std::move(step->keys), std::move(words));
  connection_.call(
      std::move(words), deadline,
      [this, steps, request, deadline, options](Result<redis::Reply> reply) {
        steps->on_reply(std::move(reply));
        send_in_steps(steps, request, deadline, options);
      },
      options);
}

// As LeaseSession does while the sentinels consider no replica down.
void Participant::send_replicated(LeaseMachine::Request request, Words words,
                                  redis::CallOptions options, std::optional<LockId> takes) {
  all_.met(replicated_lease);
  auto deadline = request.deadline;
  connection_.call(
      {"ROLE"}, deadline,
      [this, id = request.id, deadline, words = std::move(words), options,
       takes](Result<redis::Reply> role) mutable {
        if (!role) return answer(id, std::move(role));
        int replicas = std::max(int(role->items[2].items.size()), all_.plan.replicas);
        connection_.durable(
            std::move(words), replicas, deadline,
            [this, id, replicas, takes, sent = all_.world.now()](Result<redis::Durable> written) {
              if (takes) all_.note_taken(*takes, sent, written.has_value());
              if (!written) return answer(id, std::unexpected(written.error()));
              bool has_all = written->replicas >= replicas;
              answer(id, std::move(written->reply), has_all);
            },
            options);
      },
      options);
}

void Participant::answer(std::uint64_t request, Result<redis::Reply> reply, bool has_all_replicas) {
  // Errors of real servers have other words. These are from our scripts, or from the model.
  auto is_ours = [](const Error& error) {
    return redis::said(error, "ERR") || redis::said(error, "WRONGTYPE");
  };
  if (!reply && is_ours(reply.error())) all_.found("the scripts", reply.error().what);
  machine_.on_reply(request, std::move(reply), has_all_replicas, all_.world.now());
  pump();
}

// Where the server put it in the line, by the server's own clock, unless an answer was lost, and
// with it when that was. It keeps that place, under whatever session it asks again.
void Participant::note_place(std::size_t since, const Result<redis::Reply>& reply) {
  // A process that was granted the lock by message may learn only then of the place that it had.
  if (want_->has_place || want_->is_held) return;
  if (!reply || since != era()) want_->may_judge_place = false;
  if (!want_->may_judge_place || reply->items[0].number == 1) return;
  want_->has_place = true;
  // Several may arrive within one microsecond.
  auto place_us = std::uint64_t(reply->items[3].number);
  Token place{all_.era() * 100 + connection_.epoch(),
              place_us * 100 + std::uint64_t(reply->items[2].number)};
  all_.history.enqueued(all_.world.now(), want_->attempt, place);
}

// The deadline of a grant by message counts from our last question, plus the time from there to the
// grant by the server's clock. If that clock stepped forward in between, the grant looks younger
// than it is, and a process that reads the message late believes in it past its end. So this ends
// with the grant and not one ttl after the step: at the deadline, or when the renewal that is sent
// at once is answered.
void Participant::note_handed(const sim::Message& message) {
  const auto& ttl = machine_.terms(want_->lease).ttl;
  if (!ttl) return;  // the session's deadline counts from a request
  auto sent = all_.sent_at(message);
  auto believed = want_->deadline - LeaseMachine::trusted(*ttl);
  if (believed > sent && all_.stepped_forward({want_->begun, sent}))
    all_.note_misled(want_->attempt, {all_.world.now(), want_->deadline});
}

// Records what changed, as the process that has the lease sees it.
void Participant::look() {
  if (!want_) return;
  auto& want = *want_;
  auto now = all_.world.now();
  auto state = machine_.state(want.lease);
  bool is_held = state == LeaseState::held || state == LeaseState::uncertain;
  if (is_held && !want.is_held) {
    want.is_held = was_granted_ = true;
    want.token = machine_.token(want.lease);
    want.deadline = machine_.deadline(want.lease);
    all_.note_grant(want.lock, want.token);
    all_.history.granted(now, want.attempt, {token_of(want.token), want.begun, want.deadline});
    connection_.after(all_.world.between(0ms, 60ms), [this, id = want.lease] {
      if (want_ && want_->lease == id) use();
    });
    want.release_at = now + all_.world.between(1ms, all_.world.chance(0.2) ? 800ms : 50ms);
    if (is_retired_) want.release_at = now;
    connection_.at(want.release_at, [this, id = want.lease] {
      if (want_ && want_->lease == id && want_->is_held) let_go();
    });
  } else if (is_held) {
    if (auto token = machine_.token(want.lease); token != want.token) {
      want.token = token;
      all_.note_grant(want.lock, token);
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

// What it does under the lease happens at once or late, to a log in Redis or to another resource.
void Participant::use() {
  if (!want_ || !want_->is_held) return;
  auto& world = all_.world;
  auto [attempt, lease, lock, token] =
      std::tuple(want_->attempt, want_->lease, want_->lock, want_->token);
  auto late = world.chance(0.2) ? world.between(0ms, 1s) : world.between(0ms, 2ms);
  if (world.chance(0.5))
    connection_.after(late,
                      [this, attempt, lease, lock, token] { write(attempt, lease, lock, token); });
  else
    world.after(late, [this, attempt, lock, token] { write_outside(attempt, lock, token); });
  connection_.after(world.between(1ms, 80ms), [this, id = want_->lease] {
    if (want_ && want_->lease == id) use();
  });
}

// As Lease::guarded does, except that it does not check whether the lease is over.
void Participant::write(AttemptId attempt, LeaseId lease, LockId lock, FencingToken token) {
  Words keys{LeaseMachine::fence_key(lease_key(lock)), log_key(lock)};
  Words args{std::to_string(token.epoch),
             std::to_string(token.counter),
             retention_ms,
             "RPUSH",
             log_key(lock),
             fmt::format("{} {} {}", token.epoch, token.counter, attempt)};
  spoil(args);
  connection_.call(
      sim::words_of(all_.guard, std::move(keys), std::move(args)), all_.world.now() + session_ttl,
      [this, lease, token](Result<redis::Reply> reply) {
        auto refusal = reply ? std::nullopt : redis::said(reply.error(), "FENCED");
        if (!refusal) return;
        FencingToken shown, seen;
        char dash = 0;
        std::string word;
        std::istringstream text{std::string(*refusal)};
        text >> word >> shown.epoch >> dash >> shown.counter >> word >> word >> word >>
            seen.epoch >> dash >> seen.counter;
        if (!text || shown != token || seen <= token)
          all_.found("I1",
                     fmt::format("a token was refused that is not old: {}", reply.error().what));
        all_.met(stale_write_refused);
        if (!want_ || want_->lease != lease || want_->token != token) return;
        machine_.on_fenced(lease, token);
        pump();
      });
}

void Participant::write_outside(AttemptId attempt, LockId lock, FencingToken token) {
  auto& newest = all_.resources[lock].newest;
  auto now = all_.world.now();
  bool is_old = token < newest;
  if (all_.mistake == LeaseMistake::token_not_checked) is_old = false;
  if (all_.mistake == LeaseMistake::counter_only_resource) is_old = token.counter < newest.counter;
  auto& highest = all_.resources[lock].highest;
  if (is_old && token >= highest)
    all_.found("I1", fmt::format("{} was refused, and nothing newer than {} was accepted",
                                 to_string(token), to_string(highest)));
  if (is_old) return all_.history.rejected(now, attempt, token_of(token), now);
  newest = token;
  highest = std::max(highest, token);
  all_.history.accepted(now, attempt, token_of(token), now);
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
  auto late = all_.mistake == LeaseMistake::late_timer ? planted_delay : 0ms;
  connection_.at(wake + late, [this, wake] {
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
  world.after(world.between(50ms, 800ms), [this] {
    if (!has_faults_) return;
    auto& victim = participants_[world.below(participants_.size())];
    if (!victim->is_dead()) {
      met(process_killed);
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
    if (!victim->is_dead()) {
      met(std::size_t(FaultKind::paused));
      victim->sleep(world.between(0ms, 2 * session_ttl));
    }
    pause_some();
  });
}

// This excuses nothing: every waiter asks again when the messages come back. So it continues to the
// end.
void Simulation::cut_some() {
  world.after(world.between(0ms, 300ms), [this] {
    auto& victim = participants_[world.below(participants_.size())];
    if (!victim->is_dead()) {
      met(messages_missed);
      victim->miss_messages();
    }
    cut_some();
  });
}

// Any key except a fence: see expire_fences.
void Simulation::evict_some() {
  world.after(world.between(0ms, 400ms), [this] {
    if (!has_faults_) return;
    auto keys = servers.keys();
    std::erase_if(keys, [](auto& key) { return key.ends_with(":fence") || key.ends_with(":log"); });
    if (!keys.empty()) servers.evict(keys[world.below(keys.size())]);
    evict_some();
  });
}

// No process has wanted these locks for a day. A write under an older token is not refused then: it
// is as if the resource were new too.
void Simulation::expire_fences() {
  world.after(world.between(0ms, 400ms), [this] {
    if (!has_faults_) return;
    for (LockId lock = 0; lock < lock_count; ++lock) {
      auto key = lease_key(lock);
      auto fence = LeaseMachine::fence_key(key);
      if (servers.has(key) || servers.has(key + ":queue") || !servers.has(fence)) continue;
      for (int i = 0; i < servers.size(); ++i) judge_logs(servers.model(i));
      servers.evict({fence, log_key(lock)});
      met(fence_expired);
    }
    expire_fences();
  });
}

std::size_t Simulation::era() const {
  return std::size_t(std::ranges::count_if(servers.happened(), [](const sim::Happened& happened) {
    return (happened.fault >= FaultKind::restarted && happened.fault <= FaultKind::evicted) ||
           happened.fault == FaultKind::cut_off;
  }));
}

void Simulation::note_grant(LockId lock, FencingToken token) {
  auto& newest = newest_grant_[lock];
  if (token.epoch > newest.epoch && token.counter < newest.counter) met(lower_counter);
  newest = std::max(newest, token);
}

// While replicas are awaited, the server has the lease, or may have it, for a process that does not
// believe in it. A request without an answer may arrive late, and then the lease ends with its ttl.
void Simulation::note_taken(LockId lock, Clock::time_point since, bool is_answered) {
  auto until = world.now();
  if (!is_answered) until += plan.weather.slow_most + session_ttl;
  taken_.push_back({lock, {since, until}});
}

Clock::time_point Simulation::sent_at(const sim::Message& message) const {
  auto told = std::ranges::find(messages_, message.payload);
  ensure(told != messages_.end(), "a message was sent before it came");
  return handed_[std::size_t(told - messages_.begin())].at;
}

bool Simulation::stepped_forward(Window window) const {
  return std::ranges::any_of(servers.happened(), [&](const sim::Happened& happened) {
    return happened.fault == FaultKind::clock_forward && window.from <= happened.from &&
           happened.from <= window.until;
  });
}

bool Simulation::nobody_wants(const sim::Message& message) const {
  std::string_view attempt(message.payload);
  attempt = attempt.substr(0, attempt.find(' '));
  return std::ranges::any_of(participants_, [&](const auto& one) {
    return !one->is_dead() && attempt.starts_with(fmt::format("p{}/", one->id())) &&
           !one->wants(attempt);
  });
}

bool Simulation::may_have_come_back() const {
  // An earlier session may have been renewed once more by a request that was under way.
  auto lives = session_ttl + session_ttl / 20 + plan.weather.slow_most;
  return std::ranges::any_of(servers.happened(), [&](const sim::Happened& happened) {
    bool has_lost =
        happened.fault == FaultKind::restored || happened.fault == FaultKind::lost_writes;
    return has_lost && happened.from <= world.now() && world.now() <= happened.until + lives;
  });
}

// Exact, in the order in which the server wrote it, and free of what was lost.
void Simulation::judge_logs(sim::ModelRedis model) {
  for (LockId lock = 0; lock < lock_count; ++lock) {
    auto log = model.run(Words{"LRANGE", log_key(lock), "0", "-1"}, 0);
    FencingToken newest;
    AttemptId owner = 0;
    for (auto& entry : log.items) {
      FencingToken token;
      AttemptId attempt = 0;
      std::istringstream(entry.text) >> token.epoch >> token.counter >> attempt;
      if (token < newest)
        found("I1", fmt::format("lock {}: written under {} after {}", lock, to_string(token),
                                to_string(newest)));
      if (token == newest && attempt != owner)
        found("I1", fmt::format("lock {}: two owners wrote under {}", lock, to_string(token)));
      newest = token;
      owner = attempt;
    }
  }
}

// While a slot is half moved, a fence and what is written under it may be on two servers. If the
// server with the fence forgets, the tokens of those writes are unknown: it is as if the resource
// were new too.
void Simulation::forget_parted_logs(sim::ModelRedis forgetting) {
  auto has = [](sim::ModelRedis& model, const std::string& key) {
    return model.run(Words{"EXISTS", key}, 0).number == 1;
  };
  for (LockId lock = 0; lock < lock_count; ++lock) {
    auto log = log_key(lock);
    bool is_parted = has(forgetting, LeaseMachine::fence_key(lease_key(lock))) &&
                     !has(forgetting, log) && servers.has(log);
    if (!is_parted) continue;
    for (int i = 0; i < servers.size(); ++i) judge_logs(servers.model(i));
    servers.evict(log);
  }
}

// What live and dead processes have left behind after everything was given back. A newcomer then
// gets every lock at once, and leaves nothing.
void Simulation::judge_leaks() {
  std::vector<history::Level> levels;
  for (LockId lock = 0; lock < lock_count; ++lock) {
    auto& late = participants_.emplace_back(std::make_unique<Participant>(*this, ++last_process_));
    late->probe(lock);
    auto end = world.now() + probe_for;
    while (world.now() < end && !(late->was_granted() && late->leases() == 0))
      world.run_until(world.now() + 20ms);
    levels.push_back({fmt::format("lock {} is taken", lock), 0, !late->was_granted()});
  }
  auto& model = servers.model(servers.primary());
  for (LockId lock = 0; lock < lock_count; ++lock) {
    for (auto suffix : {"", ":queue"}) {
      auto key = lease_key(lock) + suffix;
      auto there = model.run(Words{"EXISTS", key}, servers.wall_us(servers.primary())).number;
      levels.push_back({key, 0, there});
    }
  }
  for (auto& participant : participants_)
    if (!participant->is_dead())
      levels.push_back({fmt::format("leases of process {}", participant->id()), 0,
                        std::int64_t(participant->leases())});
  if (auto leak = history::nothing_leaked(levels); leak && !violation_) violation_ = leak;
}

Clock::time_point Simulation::mended() const {
  auto time = world.now();
  for (auto& happened : servers.happened()) time = std::max(time, happened.until);
  for (auto& participant : participants_)
    if (!participant->is_dead()) time = std::max(time, participant->awake_at());
  return time;
}

// What each fault can have caused, for as long as it can have.
history::LeaseBounds Simulation::bounds() const {
  const auto& weather = plan.weather;
  // From a release to the grant: an answer before it, the release itself and the message may each
  // take as long as the slowest.
  Clock::duration wake = weather.slow == often_slow ? 5 * weather.slow_most + 100ms : 300ms;
  if (weather.bandwidth > 0)
    wake += std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(10 * 400 / weather.bandwidth));
  history::LeaseBounds bounds{.ttl = session_ttl, .wake = wake, .slack = 1ms};
  for (auto& [fault, from, until, was_primary, acted] : servers.happened()) {
    Window unreachable{from, until}, misled{from, from + session_ttl};
    switch (fault) {
      case FaultKind::broken_link:  // it reconnects at once
      case FaultKind::narrow_link:
      case FaultKind::paused:  // recorded in the history
        continue;
      case FaultKind::stopped:
      case FaultKind::restarted:
        // A process that wants all replicas waits for each of them.
        if (was_primary || plan.replicated > 0) bounds.excused.push_back(unreachable);
        continue;
      case FaultKind::wiped:
      case FaultKind::restored:
      case FaultKind::lost_writes:
        // The previous owner believes for one ttl.
        bounds.excused.push_back(unreachable);
        bounds.lossy.push_back(misled);
        continue;
      case FaultKind::clock_forward:
      case FaultKind::evicted:
        // The owner of the session learns of it with the next renewal.
        bounds.excused.push_back({from, from + session_ttl / 2});
        bounds.lossy.push_back(misled);
        continue;
      case FaultKind::stale_primary:
        bounds.excused.push_back(unreachable);
        bounds.lossy.push_back({from, until + session_ttl});
        continue;
      case FaultKind::cut_off:
      case FaultKind::failover:
      case FaultKind::clock_back:
      case FaultKind::moved_slots:
      case FaultKind::half_moved_slots:
      case FaultKind::out_of_memory:
        bounds.excused.push_back(unreachable);
        continue;
      case FaultKind::cannot_save:
      case FaultKind::no_permission:
      case FaultKind::loading:
      case FaultKind::read_only:
        // A session that could not be renewed may end before the next try, which may be slow.
        bounds.excused.push_back({from, until + session_ttl / 20 + weather.slow_most});
        continue;
    }
  }
  // An owner that hears of a renewal relies on that from then on.
  for (auto [attempt, window] : misled_) {
    for (auto& event : history.events()) {
      bool is_told =
          event.kind == Kind::renewed || event.kind == Kind::lost || event.kind == Kind::released;
      if (is_told && event.attempt == attempt) window.until = std::min(window.until, event.at);
    }
    bounds.lossy.push_back(window);
  }
  return bounds;
}

LeaseSchedule Simulation::run() {
  auto count = 2 + world.below(3);
  for (std::uint64_t i = 0; i < count; ++i) add_participant();
  servers.begin_faults();
  if (plan.kills) kill_some();
  if (plan.pauses) pause_some();
  if (plan.misses_messages) cut_some();
  if (plan.evictions > 0) evict_some();
  if (plan.expired_fences > 0) expire_fences();
  world.run_until(world.now() + world.between(faults_least, faults_most));
  servers.end_faults();
  has_faults_ = false;
  world.run_until(mended());
  // Once more: a process may hear late of what went wrong last.
  world.run_until(mended() + session_ttl + calm_for);
  auto judged = bounds();
  for (auto& participant : participants_)
    if (!participant->is_dead()) participant->retire();
  // A place in line and the grant that it was handed expire one after the other.
  world.run_until(world.now() + 2 * session_ttl + 300ms);
  for (int i = 0; i < servers.size(); ++i) judge_logs(servers.model(i));
  judge_leaks();

  for (auto& happened : servers.happened())
    if (happened.acted) met(std::size_t(happened.fault));
  history.sort();
  judged.taken = std::move(taken_);
  judged.handed = std::move(handed_);
  history::LeaseJudge judge(history, judged);
  auto violation = judge.first_violation();
  if (!violation) violation = std::move(violation_);
  LeaseSchedule schedule;
  schedule.events = history.events().size();
  schedule.violation = std::move(violation);
  schedule.waiters = judge.judged_waiters();
  schedule.hold_time = judge.hold_time();
  schedule.misled = misled_.size();
  for (std::size_t i = 0; i < bit_count; ++i)
    if (faults_ >> i & 1) schedule.faults.push_back(name_of(i));
  return schedule;
}

}  // namespace

LeaseSchedule simulate_leases(std::uint64_t seed, LeaseMistake mistake) {
  return Simulation(seed, mistake).run();
}

std::vector<const char*> lease_faults() {
  std::vector<const char*> names;
  for (std::size_t i = 0; i < bit_count; ++i) names.push_back(name_of(i));
  return names;
}

}  // namespace warren::torture
