#include "proof/torture/schedules/once_sim.h"

#include <array>

#include "primitives/once/scripts.h"
#include "proof/sim/servers.h"
#include "proof/torture/schedules/once_sim_user.h"

namespace warren::torture {

namespace {

using history::OnceEvent;
using history::OnceHistory;
using history::ProcessId;
using history::ThingId;
using history::Violation;
using history::Window;
using sim::FaultKind;
using sim::Words;

// Short schedules find as much as long ones in the same time, and more of them are different.
constexpr auto faults_least = 300ms, faults_most = 900ms;
constexpr double often_slow = 0.03;

// What else a schedule may have, after the faults of servers and links in the bits.
enum Extra : std::size_t {
  process_killed = sim::fault_count,
  messages_missed,
  other_program_,
  taken_over,
  began_alone,
  made_to_agree,
  bit_count,
};
static_assert(bit_count <= 64);

const char* name_of(std::size_t bit) {
  static constexpr std::array<const char*, bit_count - sim::fault_count> names{
      "process killed",  "messages missed",     "another program",
      "step taken over", "began without Redis", "record made to agree"};
  return bit < sim::fault_count ? sim::name(FaultKind(bit)) : names[bit - sim::fault_count];
}

// The properties of a schedule, drawn from its seed. Most have one or two kinds of trouble with
// servers, and some none: much at once excuses much.
struct Plan {
  sim::Weather weather;
  int replicas = 0;
  bool is_cluster = false, is_optimistic = false, ends_abandoned = false;
  bool kills, pauses, misses_messages;
  bool has_other_program = false;
};

Plan plan_of(sim::World& world) {
  constexpr double often = 5;  // per second: one in most schedules that have it at all
  Plan plan;
  auto& weather = plan.weather;
  auto some = [&](double chance) { return world.chance(chance) ? often : 0; };
  if (world.chance(0.3)) weather.slow = often_slow;
  if (world.chance(0.1)) weather.bandwidth = 50'000 + 100'000 * world.unit();
  if (world.chance(0.5)) weather.drift_most = 0.004;
  weather.breaks = some(0.5);
  weather.cut_offs = some(0.3);
  plan.kills = world.chance(0.5);
  plan.pauses = world.chance(0.4);
  plan.misses_messages = world.chance(0.4);
  plan.is_optimistic = world.chance(0.4);
  plan.ends_abandoned = world.chance(0.3);

  weather.stops = some(0.15);
  weather.restarts = some(0.12);
  weather.failovers = some(0.3);
  weather.refusals = some(0.3);
  plan.is_cluster = world.chance(0.25);
  plan.has_other_program = !plan.is_cluster && world.chance(0.3);
  // As with leases (lease_sim.cc): a client redirected by MOVED to a server that came with a
  // failover does not know the epoch yet; and a server that forgets while its clock goes back
  // repeats tokens.
  if (plan.is_cluster && weather.failovers == 0) {
    weather.half_moves = some(0.6);
    if (weather.half_moves == 0) weather.moves = often;
  }
  if (world.chance(weather.failovers > 0 ? 0.3 : 0.5)) {
    weather.loses_data = world.chance(0.5) ? 1 : 0;
    if (weather.loses_data > 0) weather.restarts = often;
    weather.restores = 2 * some(0.3);  // a copy, and later back to it
  } else {
    weather.clock_steps = some(0.25);
    weather.skew_most = weather.failovers > 0 || world.chance(0.5) ? 800ms : 0ms;
  }
  bool has_moves = weather.moves > 0 || weather.half_moves > 0;
  if (weather.failovers > 0 || has_moves || world.chance(0.2)) plan.replicas = 2;
  bool loses_claims = weather.skew_most > 0ms || world.chance(0.7);
  if (weather.failovers > 0 && loses_claims) weather.long_lag = 0.9;
  weather.stop_most = weather.down_most = weather.step_most = weather.stale_most = 500ms;
  weather.refusal_most = 300ms;
  weather.cut_most = 2 * once_alive;
  weather.news_most = 400ms;
  return plan;
}

OnceTerms terms_of(const Plan& plan) {
  OnceTerms terms;
  terms.prefix = "o:";
  terms.alive = once_alive;
  terms.lock_ttl = 600ms;
  terms.busy_ttl = 5s;
  terms.record_ttl = terms.failed_ttl = 60s;
  terms.retry_after = 30ms;
  terms.patience = 80ms;
  if (plan.is_optimistic) terms.without_redis = OnceWithoutRedis::optimistic;
  if (plan.ends_abandoned) terms.when_abandoned = OnceAbandoned::is_ended;
  terms.show = [](const OnceView& view) { return std::string(view.status); };
  return terms;
}

// One place in the script that a mistake replaces.
struct Spoiling {
  OnceMistake mistake;
  std::string_view what, with;
};
constexpr Spoiling spoilings[] = {
    {OnceMistake::takes_from_the_living, "is_mine or not is_alive or", "true or"},
    {OnceMistake::token_not_raised, "max(is.counter + 1, now_us)", "max(is.counter, 1)"},
    {OnceMistake::unchecked_result, "if is_older then return view(0) end",
     "if is_older then e, c, is_newer = is.epoch, is.counter, true end"},
    {OnceMistake::unchecked_renewal,
     "if is_older or not is_newer and not (is.phase == 'busy' and is_mine) then return view(0) end",
     "if is.phase ~= 'busy' then return view(0) end"},
    {OnceMistake::refresh_brings_back, "if what == 'refresh' then",
     "if what == 'refresh' then\n  if is.phase == 'none' then\n"
     "    is.phase, is.status, is.record, e, c = 'left', 'created', '1', is.epoch, is.counter\n"
     "    is_older, is_newer = false, false\n  end"},
    {OnceMistake::keeps_removed_record, "if how == 'left' then",
     "if how == 'left' and status == '' then how, is.error = 'back', '' end\n  if how == 'left' "
     "then"},
    {OnceMistake::result_not_recorded, "if how == 'left' then",
     "if how == 'left' then return view(1)\n  elseif how == '' then"},
};

// Kept, because a server remembers its scripts by their hashes.
const redis::Script& script_with(OnceMistake mistake) {
  thread_local std::map<OnceMistake, redis::Script> made;
  auto found = made.find(mistake);
  if (found != made.end()) return found->second;
  auto source = scripts::once.source();
  for (const auto& place : spoilings) {
    if (place.mistake != mistake) continue;
    auto at = source.find(place.what);
    ensure(at != source.npos, "the script has what is to be spoilt");
    source.replace(at, place.what.size(), place.with);
  }
  return made.emplace(mistake, redis::Script("once", source)).first->second;
}

class Simulation {
 public:
  Simulation(std::uint64_t seed, OnceMistake mistake)
      : world_(seed),
        plan_(plan_of(world_)),
        servers_(
            world_,
            {.replicas = plan_.replicas, .weather = plan_.weather, .is_cluster = plan_.is_cluster}),
        all_{.world = world_,
             .history = history_,
             .mistake = mistake,
             .terms = terms_of(plan_),
             .is_cluster = plan_.is_cluster,
             .script = script_with(mistake),
             .found = [this](const char* invariant, std::string what) {
               if (!violation_) violation_ = Violation{invariant, std::move(what), {}};
             }} {}

  OnceSchedule run();

 private:
  void add_user();
  template <class Do>
  void now_and_then(Clock::duration most, Do act);
  template <class Do>
  void each_living(Do act) {
    for (auto& user : users_)
      if (!user->is_dead()) act(*user);
  }
  OnceUser& any_living();
  void begin_faults();
  void other_program();
  void call(Words words, std::function<void(const Result<redis::Reply>&)> answer);
  void run_until(Clock::time_point time, const std::function<bool()>& fact);
  void recover();
  void note_ends();
  Clock::time_point mended() const;
  std::vector<Window> lossy() const;
  void met(std::size_t bit) { faults_ |= std::uint64_t(1) << bit; }

  sim::World world_;
  Plan plan_;
  sim::Servers servers_;
  OnceHistory history_;
  OnceWorld all_;
  sim::Connection* other_ = nullptr;
  std::vector<std::unique_ptr<OnceUser>> users_;
  ProcessId last_process_ = 0;
  bool has_faults_ = true;
  history::Verdict violation_;
  std::uint64_t faults_ = 0;
};

void Simulation::add_user() {
  users_.push_back(std::make_unique<OnceUser>(all_, servers_.connect(), ++last_process_));
  users_.back()->begin_life();
}

OnceUser& Simulation::any_living() {
  for (;;)
    if (auto& user = users_[world_.below(users_.size())]; !user->is_dead()) return *user;
}

// Does something to a random process from time to time, as long as there are faults.
template <class Do>
void Simulation::now_and_then(Clock::duration most, Do act) {
  world_.after(world_.between(0ms, most), [this, most, act] {
    if (!has_faults_) return;
    act(any_living());
    now_and_then(most, act);
  });
}

void Simulation::begin_faults() {
  servers_.begin_faults();
  if (plan_.kills)
    now_and_then(600ms, [this](OnceUser& victim) {
      met(process_killed);
      victim.die();
      add_user();
    });
  // Around the time after which a process counts as dead, where it matters most.
  if (plan_.pauses)
    now_and_then(1s, [this](OnceUser& victim) {
      met(std::size_t(FaultKind::paused));
      victim.sleep(world_.between(0ms, 2 * once_alive));
    });
  if (plan_.misses_messages)
    now_and_then(300ms, [this](OnceUser& victim) {
      met(messages_missed);
      victim.miss_messages();
    });
  if (plan_.has_other_program) {
    other_ = &servers_.connect();
    now_and_then(400ms, [this](OnceUser&) { other_program(); });
  }
}

void Simulation::call(Words words, std::function<void(const Result<redis::Reply>&)> answer) {
  other_->call(std::move(words), world_.now() + 200ms, std::move(answer));
}

// It knows only the two keys, believes in a lock without asking whose it is, and deletes blindly.
void Simulation::other_program() {
  met(other_program_);
  auto thing = ThingId(world_.below(simulated_things));
  auto keys = once_keys(all_.terms.prefix, thing_name(thing), false);
  if (world_.chance(0.3)) {
    if (world_.chance(0.3)) all_.things[thing].uid = 0;
    return call({"DEL", keys.resource}, [](auto&) {});
  }
  call({"SET", keys.lock, "1763200000", "NX", "PX", "200"}, [this, keys, thing](const auto& reply) {
    if (!reply || reply->is_null()) return;
    call({"SET", keys.resource, "creating", "PX", "600"}, [](auto&) {});
    other_->after(world_.between(1ms, 300ms), [this, keys, thing] {
      all_.things[thing].make({});
      call({"SET", keys.resource, "created", "PX", "3600"}, [](auto&) {});
      call({"DEL", keys.lock}, [](auto&) {});
    });
  });
}

Clock::time_point Simulation::mended() const {
  auto time = world_.now();
  for (const auto& happened : servers_.happened()) time = std::max(time, happened.until);
  for (const auto& user : users_)
    if (!user->is_dead()) time = std::max(time, user->awake_at());
  return time;
}

// When a fault can have made two processes work, or undone a decision.
std::vector<Window> Simulation::lossy() const {
  const auto hears = plan_.weather.slow == often_slow ? 500ms : 300ms;
  std::vector<Window> windows;
  for (const auto& [fault, from, until, was_primary, acted] : servers_.happened()) {
    auto expires = from + once_alive;
    switch (fault) {
      case FaultKind::wiped:
      case FaultKind::clock_forward:
      case FaultKind::moved_slots:  // the next server's clock may be ahead
        windows.push_back({from, expires});
        continue;
      case FaultKind::half_moved_slots:
        if (plan_.weather.skew_most > 0ms) windows.push_back({from, until + once_alive});
        continue;
      case FaultKind::restored:
        windows.push_back({from, std::max(until, expires) + hears});
        continue;
      case FaultKind::stale_primary:
        windows.push_back({from, until + once_alive});
        continue;
      case FaultKind::lost_writes:
        // Until all processes have heard of it.
        for (const auto& other : servers_.happened())
          if (other.fault == FaultKind::failover && other.from == from)
            windows.push_back({from, std::max(other.until, expires) + hears});
        continue;
      default:
        continue;
    }
  }
  return windows;
}

void Simulation::run_until(Clock::time_point time, const std::function<bool()>& fact) {
  while (world_.now() < time && !fact()) world_.run_until(world_.now() + 10ms);
}

// Nothing goes wrong any more, except that one process dies at work. A caller that asks then is
// answered; and whatever the faults left, checking the resources makes the records agree with them.
void Simulation::recover() {
  auto are_idle = [this] {
    return std::ranges::all_of(users_,
                               [](auto& user) { return user->is_dead() || user->is_idle(); });
  };
  each_living([](OnceUser& user) { user.retire(); });
  world_.run_until(mended() + 100ms);
  run_until(mended() + all_.terms.busy_ttl + 2 * once_alive, are_idle);
  world_.run_until(world_.now() + longest_post + 100ms);
  history_.note({.at = world_.now(), .kind = OnceEvent::Kind::calm});
  each_living([](OnceUser& user) { user.ask_for_all(); });
  world_.after(world_.between(1ms, 30ms), [this] {
    any_living().die();
    add_user();
    users_.back()->retire();
  });
  world_.run_until(world_.now() + 40ms);
  run_until(world_.now() + 5 * once_alive, are_idle);
  world_.run_until(world_.now() + longest_post + 100ms);

  std::size_t agreed = 0;
  for (ThingId thing = 0; thing < simulated_things; ++thing)
    any_living().reconcile(thing, [&agreed] { ++agreed; });
  run_until(world_.now() + 10 * once_alive, [&] { return agreed == simulated_things; });
  if (agreed < simulated_things) all_.found("I22", "record and resource cannot be made to agree");
  each_living([](OnceUser& user) { user.refresh_what_it_knew(); });
  world_.run_until(world_.now() + 2 * once_alive);
}

// What a client of the server would see.
void Simulation::note_ends() {
  OnceMachine asks(all_.terms, "judge", all_.is_cluster);
  auto primary = servers_.primary();
  for (ThingId thing = 0; thing < simulated_things; ++thing) {
    auto request = asks.to_get(thing_name(thing));
    auto reply = servers_.model(primary).run(
        sim::words_of(scripts::once, request.keys, request.args), servers_.wall_us(primary));
    auto state = OnceState::of(reply);
    std::uint64_t value = 0;
    if (state && state->phase == OnceState::Phase::left)
      value = std::strtoull(state->record.c_str(), nullptr, 10);
    history_.note(
        {.at = world_.now(), .kind = OnceEvent::Kind::record, .thing = thing, .value = value});
    history_.note({.at = world_.now(),
                   .kind = OnceEvent::Kind::resource,
                   .thing = thing,
                   .value = all_.things[thing].uid});
  }
}

OnceSchedule Simulation::run() {
  auto count = 2 + world_.below(3);
  for (std::uint64_t i = 0; i < count; ++i) add_user();
  begin_faults();
  world_.run_until(world_.now() + world_.between(faults_least, faults_most));
  servers_.end_faults();
  has_faults_ = false;
  world_.run_until(mended());
  recover();
  note_ends();

  for (const auto& happened : servers_.happened())
    if (happened.acted) met(std::size_t(happened.fault));
  if (all_.takeovers > 0) met(taken_over);
  if (all_.alone > 0) met(began_alone);
  if (all_.adopted > 0) met(made_to_agree);
  history::OnceJudge judge(history_, {.slack = 10ms,
                                      .patience = 4 * once_alive,
                                      .late_request = once_alive,
                                      .is_optimistic = plan_.is_optimistic,
                                      .lossy = lossy()});
  OnceSchedule schedule;
  schedule.events = history_.events().size();
  schedule.violation = judge.first_violation();
  if (!schedule.violation) schedule.violation = std::move(violation_);
  schedule.work_time = judge.work_time();
  for (std::size_t i = 0; i < bit_count; ++i)
    if (faults_ >> i & 1) schedule.faults.push_back(name_of(i));
  return schedule;
}

}  // namespace

OnceSchedule simulate_once(std::uint64_t seed, OnceMistake mistake) {
  return Simulation(seed, mistake).run();
}

std::vector<const char*> once_faults() {
  std::vector<const char*> names;
  constexpr auto evicted = static_cast<std::size_t>(FaultKind::evicted);  // no key is evicted here
  for (std::size_t i = 0; i < bit_count; ++i)
    if (i != evicted) names.push_back(name_of(i));
  return names;
}

}  // namespace warren::torture
