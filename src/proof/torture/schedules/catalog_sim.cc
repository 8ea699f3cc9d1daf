#include "proof/torture/schedules/catalog_sim.h"

#include "proof/sim/servers.h"
#include "proof/torture/schedules/catalog_sim_node.h"

namespace warren::torture {

namespace {

using history::CatalogEvent;
using history::CatalogHistory;
using history::ProcessId;
using history::Violation;
using history::Window;
using sim::FaultKind;
using sim::Words;

// Short schedules find as much as long ones in the same time, and more of them are different.
constexpr auto faults_least = 200ms, faults_most = 600ms;
constexpr double often_slow = 0.03;

// What else a schedule may have, after the faults of servers and links in the bits.
enum Extra : std::size_t {
  process_killed = sim::fault_count,
  messages_missed,
  old_epoch_refused,
  row_unknown_to_its_owner,
  follower_began_anew,  // more than once per node
  bit_count,
};
static_assert(bit_count <= 64);

const char* name_of(std::size_t bit) {
  static constexpr std::array<const char*, bit_count - sim::fault_count> names{
      "process killed", "messages missed", "old epoch refused", "row unknown to its owner",
      "follower began anew"};
  return bit < sim::fault_count ? sim::name(FaultKind(bit)) : names[bit - sim::fault_count];
}

// The properties of a schedule, drawn from its seed. Most have one or two kinds of trouble with
// servers, and some none: much at once excuses much.
struct Plan {
  sim::Weather weather;
  int replicas = 0;
  bool is_cluster = false;
  bool kills, pauses, misses_messages;
  bool evicts_rows = false;
};

Plan plan_of(sim::World& world) {
  constexpr double often = 5;  // per second: one in most schedules that have it at all
  Plan plan;
  auto& weather = plan.weather;
  auto some = [&](double chance) { return world.chance(chance) ? often : 0; };
  if (world.chance(0.3)) weather.slow = often_slow;
  if (world.chance(0.15)) weather.bandwidth = 50'000 + 100'000 * world.unit();
  if (world.chance(0.5)) weather.drift_most = 0.004;
  weather.breaks = some(0.5);
  weather.cut_offs = some(0.3);
  plan.kills = world.chance(0.4);
  plan.pauses = world.chance(0.4);
  plan.misses_messages = world.chance(0.4);

  weather.stops = some(0.12);
  weather.restarts = some(0.12);
  weather.failovers = some(0.4);
  weather.refusals = some(0.35);
  plan.is_cluster = world.chance(0.2);
  // As with leases (lease_sim.cc): a client redirected by MOVED to a server that came with a
  // failover does not know the epoch yet; and a server that forgets while its clock goes back
  // repeats epochs.
  if (plan.is_cluster && weather.failovers == 0) weather.moves = often;
  if (world.chance(weather.failovers > 0 ? 0.3 : 0.5)) {
    weather.loses_data = world.chance(0.4) ? 1 : 0;
    if (weather.loses_data > 0) weather.restarts = often;
    weather.restores = 2 * some(0.35);  // a copy, and later back to it
    plan.evicts_rows = world.chance(0.2);
  } else {
    weather.clock_steps = some(0.25);
    weather.skew_most = weather.failovers > 0 || world.chance(0.7) ? 800ms : 0ms;
  }
  if (weather.failovers > 0 || weather.moves > 0 || world.chance(0.2)) plan.replicas = 2;
  bool loses_claims = weather.skew_most > 0ms || world.chance(0.7);
  if (weather.failovers > 0 && loses_claims) weather.long_lag = 0.9;
  weather.stop_most = weather.down_most = weather.step_most = weather.stale_most = 500ms;
  weather.refusal_most = 300ms;
  weather.cut_most = 2 * simulated_ttl;
  weather.news_most = 400ms;
  return plan;
}

Words catalog_keys() {
  Words keys;
  for (auto name : {"rows", "changes", "nodes", "places"})
    keys.push_back(fmt::format("{{c}}:{}", name));
  return keys;
}

class Simulation {
 public:
  Simulation(std::uint64_t seed, CatalogMistake mistake)
      : world_(seed),
        plan_(plan_of(world_)),
        servers_(
            world_,
            {.replicas = plan_.replicas, .weather = plan_.weather, .is_cluster = plan_.is_cluster}),
        all_{.world = world_,
             .history = history_,
             .mistake = mistake,
             .scripts = scripts_with(mistake),
             .keys = catalog_keys(),
             .found =
                 [this](const char* invariant, std::string what) {
                   if (!violation_) violation_ = Violation{invariant, std::move(what), {}};
                 },
             .some_session = [this] { return nodes_[world_.below(nodes_.size())]->session(); }} {}

  CatalogSchedule run();

 private:
  void add_node();
  template <class Do>
  void now_and_then(Clock::duration most, Do act);
  template <class Do>
  void each_living(Do act) {
    for (auto& node : nodes_)
      if (!node->is_dead()) act(*node);
  }
  void begin_faults();
  // Or until the fact holds, if that is earlier.
  void run_until(Clock::time_point time, bool (Simulation::*fact)());
  bool is_all_owned();
  bool is_all_followed();
  Clock::time_point mended() const;
  std::vector<Window> lossy() const;
  std::uint64_t catalog_digest();
  void met(std::size_t bit) { faults_ |= std::uint64_t(1) << bit; }
  void note(CatalogEvent::Kind kind) { history_.note({.at = world_.now(), .kind = kind}); }

  sim::World world_;
  Plan plan_;
  sim::Servers servers_;
  CatalogHistory history_;
  CatalogWorld all_;
  std::vector<std::unique_ptr<SimulatedNode>> nodes_;
  ProcessId last_process_ = 0;
  bool has_faults_ = true;
  history::Verdict violation_;
  std::uint64_t faults_ = 0;
};

void Simulation::add_node() {
  nodes_.push_back(std::make_unique<SimulatedNode>(all_, servers_.connect(), ++last_process_));
  nodes_.back()->begin_life();
}

// Does something to a random node from time to time, as long as there are faults.
template <class Do>
void Simulation::now_and_then(Clock::duration most, Do act) {
  world_.after(world_.between(0ms, most), [this, most, act] {
    if (!has_faults_) return;
    auto& victim = *nodes_[world_.below(nodes_.size())];
    if (!victim.is_dead()) act(victim);
    now_and_then(most, act);
  });
}

void Simulation::begin_faults() {
  servers_.begin_faults();
  if (plan_.kills)
    now_and_then(800ms, [this](SimulatedNode& victim) {
      met(process_killed);
      victim.die();
      add_node();
    });
  // Around the ttl, where it matters most.
  if (plan_.pauses)
    now_and_then(1s, [this](SimulatedNode& victim) {
      met(std::size_t(FaultKind::paused));
      victim.sleep(world_.between(0ms, 2 * simulated_ttl));
    });
  if (plan_.misses_messages)
    now_and_then(300ms, [this](SimulatedNode& victim) {
      met(messages_missed);
      victim.miss_messages();
    });
  if (plan_.evicts_rows)
    now_and_then(400ms, [this](SimulatedNode&) { servers_.evict(all_.keys[0]); });
}

Clock::time_point Simulation::mended() const {
  auto time = world_.now();
  for (auto& happened : servers_.happened()) time = std::max(time, happened.until);
  for (auto& node : nodes_)
    if (!node->is_dead()) time = std::max(time, node->awake_at());
  return time;
}

// When a fault can have made two nodes believe, or undone a decision. A session that the server has
// lost ends with its deadline at the latest. If the server has the session but not the claim, the
// node learns that from the changes, once it has reached the server again.
std::vector<Window> Simulation::lossy() const {
  const auto hears = plan_.weather.slow == often_slow ? 500ms : 300ms;
  std::vector<Window> windows;
  for (auto& [fault, from, until, was_primary, acted] : servers_.happened()) {
    auto expires = from + simulated_ttl;
    switch (fault) {
      case FaultKind::wiped:
      case FaultKind::clock_forward:
      case FaultKind::moved_slots:  // the next server's clock may be ahead
      case FaultKind::evicted:
        windows.push_back({from, expires});
        continue;
      case FaultKind::restored:
        windows.push_back({from, std::max(until, expires) + hears});
        continue;
      case FaultKind::stale_primary:
        windows.push_back({from, until + simulated_ttl});
        continue;
      case FaultKind::lost_writes:
        // Until all processes have heard of it.
        for (auto& other : servers_.happened())
          if (other.fault == FaultKind::failover && other.from == from)
            windows.push_back({from, std::max(other.until, expires) + hears});
        continue;
      default:
        continue;
    }
  }
  return windows;
}

// What a client of the server would see.
std::uint64_t Simulation::catalog_digest() {
  auto primary = servers_.primary();
  auto reply =
      servers_.model(primary).run(Words{"HGETALL", all_.keys[0]}, servers_.wall_us(primary));
  std::vector<Row> rows;
  for (std::size_t i = 0; i + 1 < reply.items.size(); i += 2)
    if (auto row = parse_record(reply.items[i].text, reply.items[i + 1].text))
      rows.push_back(*std::move(row));
  return digest_of(rows);
}

void Simulation::run_until(Clock::time_point time, bool (Simulation::*fact)()) {
  while (world_.now() < time && !(this->*fact)()) world_.run_until(world_.now() + 25ms);
}

bool Simulation::is_all_owned() {
  for (history::RowId row = 0; row < simulated_rows; ++row) {
    auto owns = [&](auto& node) { return !node->is_dead() && node->believes_in(wanted_row(row)); };
    if (std::ranges::none_of(nodes_, owns)) return false;
  }
  return true;
}

bool Simulation::is_all_followed() {
  auto digest = catalog_digest();
  return std::ranges::all_of(
      nodes_, [&](auto& node) { return node->is_dead() || node->digest() == digest; });
}

CatalogSchedule Simulation::run() {
  auto count = 2 + world_.below(3);
  for (std::uint64_t i = 0; i < count; ++i) add_node();
  begin_faults();
  world_.run_until(world_.now() + world_.between(faults_least, faults_most));
  servers_.end_faults();
  has_faults_ = false;
  world_.run_until(mended());
  each_living([](SimulatedNode& node) { node.settle(); });
  // Once more: a node may hear late of what went wrong last; and leases of dead nodes end.
  world_.run_until(mended() + 100ms);
  world_.run_until(mended() + simulated_ttl);
  run_until(mended() + simulated_ttl + 500ms, &Simulation::is_all_owned);
  note(CatalogEvent::Kind::settled);
  each_living([](SimulatedNode& node) { node.be_still(); });
  world_.run_until(world_.now() + simulated_ttl / 3);  // the longest call
  run_until(world_.now() + 600ms, &Simulation::is_all_followed);
  auto digest = catalog_digest();
  each_living([&](SimulatedNode& node) { node.note_contents(digest); });

  for (auto& happened : servers_.happened())
    if (happened.acted) met(std::size_t(happened.fault));
  if (all_.writes_refused > 0) met(old_epoch_refused);
  if (all_.strays > 0) met(row_unknown_to_its_owner);
  if (all_.restarts > nodes_.size()) met(follower_began_anew);
  history::CatalogJudge judge(history_, {.rows = simulated_rows, .lossy = lossy()});
  CatalogSchedule schedule;
  schedule.events = history_.events().size();
  schedule.violation = judge.first_violation();
  if (!schedule.violation) schedule.violation = std::move(violation_);
  schedule.hold_time = judge.hold_time();
  for (std::size_t i = 0; i < bit_count; ++i)
    if (faults_ >> i & 1) schedule.faults.push_back(name_of(i));
  return schedule;
}

}  // namespace

CatalogSchedule simulate_catalog(std::uint64_t seed, CatalogMistake mistake) {
  return Simulation(seed, mistake).run();
}

std::vector<const char*> catalog_faults() {
  std::vector<const char*> names;
  // All keys of a catalog's scripts are in one slot: if it is half moved, they only wait.
  constexpr auto half_moved = static_cast<std::size_t>(sim::FaultKind::half_moved_slots);
  for (std::size_t i = 0; i < bit_count; ++i)
    if (i != half_moved) names.push_back(name_of(i));
  return names;
}

}  // namespace warren::torture
