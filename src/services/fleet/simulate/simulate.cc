#include "services/fleet/simulate/simulate.h"

#include <algorithm>
#include <array>

#include "services/fleet/plan/demand.h"
#include "services/fleet/simulate/node.h"
#include "services/fleet/simulate/scaling.h"

namespace warren::fleet_sim {

namespace {

constexpr auto sample_interval = 5s;
constexpr auto news_time = 300ms;  // as the router's
constexpr auto regretted = 15min;
constexpr auto drain_time = 60s;
constexpr std::size_t most_drained = 8;

class Simulation {
 public:
  explicit Simulation(const Terms& terms)
      : stage_(terms), traffic_(terms.seed + 2), scaling_(stage_, terms.seed + 3) {}
  Outcome run();

 private:
  struct Open {
    Recovery what;
    Time since{};
    std::set<int> lost = {}, rows = {};  // not yet served again; all of them
    std::uint64_t clones_before = 0;
  };

  const Terms& terms() const { return stage_.terms; }
  double now() const { return in_seconds(stage_.agenda.now().time_since_epoch()); }
  Time part(double of_length) const {
    return Time(seconds(of_length * in_seconds(stage_.terms.length)));
  }
  ModelNode& node(int number) { return *stage_.nodes.at(static_cast<std::size_t>(number)); }

  void make_repos();
  void make_nodes();
  void listen();

  void next_query();
  void ask(int repo, int avoided, bool is_second);
  void missed(int repo, const char* reason);
  void tell_demand();

  void plan_faults();
  int victim();
  void kill_one(const std::string& why);
  void pause_one();
  void cut_one();
  void restart_catalog();
  void slow_hosts();
  void drain_all(std::size_t number);
  void lose(std::string what, const std::vector<int>& rows, Time since);
  double work_alone(const std::vector<int>& rows);
  std::uint64_t clones_of(const std::set<int>& rows) const;

  void on_ready(int row);
  void pin_some();
  void sample();
  void finish();
  std::string why_unserved(int row);

  Stage stage_;
  Chance traffic_;
  ScalingModel scaling_;
  std::vector<double> popularity_;  // summed up
  std::vector<int> pinned_later_;   // repositories
  fleet::Demand demand_;
  std::vector<Open> open_;
  std::vector<bool> was_ready_;  // by repository
  std::vector<double> claimed_;
  std::set<int> faulted_;  // nodes
  bool has_fault_ = false;
  std::optional<Time> idle_since_;
  Time first_fault_ = Time::max();
  ModelCatalog::Counters idle_from_;
};

// --- the world -----------------------------------------------------------------------------------

void Simulation::make_repos() {
  const auto& world = terms().world;
  double need = 0, sum = 0;
  for (int i = 0; i < terms().repos; ++i) {
    Repo repo{.name = fmt::format("r{:05}", i)};
    repo.bytes =
        std::min(stage_.chance.log_normal(world.median_bytes, world.sigma), world.largest_bytes);
    repo.host = static_cast<int>(stage_.chance.below(static_cast<std::size_t>(world.hosts)));
    repo.spec.is_pinned = stage_.chance.unit() < world.pinned;
    repo.spec.replicas = terms().replicas;
    need += static_cast<double>(stage_.hot_bytes(repo)) * terms().replicas;
    popularity_.push_back(sum += 1 / std::pow(i + 1, world.zipf));
    stage_.repo_number[repo.name] = i;
    stage_.repos.push_back(std::move(repo));
  }
  stage_.outcome.need_bytes = static_cast<std::uint64_t>(need);
  auto by_part = static_cast<std::uint64_t>(need * terms().budget_part / terms().nodes);
  stage_.budget_bytes = terms().budget_bytes > 0 ? terms().budget_bytes : by_part;
  stage_.outcome.budget_bytes = stage_.budget_bytes;
  for (int i = 0; i < terms().repos; ++i) {
    const auto& repo = stage_.repos[static_cast<std::size_t>(i)];
    for (int slot = 0; slot < terms().replicas; ++slot) {
      ModelRow row{.key = fleet::row_key(repo.name, slot), .repo = i};
      row.rank = fleet::rank_of(repo.spec, 0, 0);
      auto key = row.key;
      stage_.row_of[key] = stage_.catalog.add(std::move(row));
    }
  }
  stage_.outcome.rows = stage_.catalog.rows().size();
  stage_.believers.resize(stage_.outcome.rows);
  stage_.evicted.resize(stage_.repos.size());
  stage_.clones.resize(stage_.repos.size());
  was_ready_.resize(stage_.repos.size());
}

void Simulation::make_nodes() {
  const auto& world = terms().world;
  for (int i = 0; i < world.hosts; ++i)
    stage_.hosts.push_back(
        std::make_unique<Link>(stage_.agenda, world.host_mb_s * 1e6, world.clone_mb_s * 1e6));
  for (int i = 0; i < terms().nodes; ++i) {
    stage_.nodes.push_back(std::make_unique<ModelNode>(stage_, i));
    stage_.agenda.after(seconds(stage_.chance.unit()), [this, i] { node(i).start(); });
  }
}

void Simulation::listen() {
  stage_.catalog.on_change = [this](int row) {
    for (auto& one : stage_.nodes) one->on_change(row);
  };
  stage_.catalog.on_claimed = [this](int row) {
    claimed_.push_back(in_seconds(stage_.agenda.now() - stage_.row(row).unserved));
  };
  stage_.catalog.on_ready = [this](int row) { on_ready(row); };
  stage_.catalog.on_violation = [this](std::string what) { stage_.violated(std::move(what)); };
}

void Simulation::on_ready(int row) {
  auto& outcome = stage_.outcome;
  const auto& repo = stage_.repo_of(row);
  was_ready_[static_cast<std::size_t>(stage_.row(row).repo)] = true;
  demand_.on_served(repo.name);
  if (fleet::demand_of(stage_.row(row).rank) > 0)
    stage_.catalog.change(row, fleet::rank_of(repo.spec, 0, stage_.row(row).note.size_bytes));
  outcome.served_seconds.push_back(in_seconds(stage_.agenda.now() - stage_.row(row).unserved));
  outcome.most_ready = std::max(outcome.most_ready, stage_.catalog.ready());
  if (outcome.all_ready < 0 && stage_.catalog.ready() == outcome.rows) {
    outcome.all_ready = now();
    idle_since_ = stage_.agenda.now() + 60s;
    stage_.agenda.at(*idle_since_, [this] { idle_from_ = stage_.catalog.counters(); });
    std::uint64_t sum = 0, most = 0;
    for (const auto& one : stage_.nodes) {
      sum += one->memory();
      most = std::max(most, one->memory());
    }
    outcome.balance = static_cast<double>(most) * terms().nodes / static_cast<double>(sum);
  }
  for (auto& open : open_) {
    if (open.lost.erase(row) == 0 || !open.lost.empty()) continue;
    open.what.seconds = in_seconds(stage_.agenda.now() - open.since);
    open.what.clones = clones_of(open.rows) - open.clones_before;
  }
}

// --- queries -------------------------------------------------------------------------------------

void Simulation::next_query() {
  auto wait = seconds(traffic_.exponential(1 / terms().world.queries_per_second));
  stage_.agenda.after(wait, [this] {
    auto at = traffic_.unit() * popularity_.back();
    auto found = std::ranges::lower_bound(popularity_, at);
    ++stage_.outcome.queries;
    ask(static_cast<int>(found - popularity_.begin()), nobody, false);
    next_query();
  });
}

// What a router does with its view of the catalog, which is a moment old: any replica that is ready,
// and when that one is not, or not there, once more with what is known by then.
void Simulation::ask(int repo, int avoided, bool is_second) {
  struct Choice {
    bool is_avoided;
    std::uint64_t chance;
    int row;
  };
  std::vector<Choice> choices;
  const char* reason = "unclaimed";
  for (int slot = 0; slot < terms().replicas; ++slot) {
    auto row = repo * terms().replicas + slot;
    const auto& view = stage_.row(row).view;
    if (view.owner != nobody) reason = stage_.catalog.lives(view.owner) ? "warming" : "unreachable";
    bool is_ready = view.state == RowState::ready || view.state == RowState::draining;
    if (!is_ready || !stage_.catalog.lives(view.owner)) continue;
    auto number = stage_.catalog.session(view.owner).node;
    choices.push_back({number == avoided, traffic_.bits(), row});
  }
  if (choices.empty()) return missed(repo, reason);
  auto best = std::ranges::min_element(
      choices, {}, [](const Choice& one) { return std::pair(one.is_avoided, one.chance); });
  const auto& view = stage_.row(best->row).view;
  auto number = stage_.catalog.session(view.owner).node;
  auto answer = node(number).ask(best->row, view.epoch);
  if (answer == ModelNode::Answer::served) {
    ++stage_.outcome.complete;
    stage_.outcome.second_try += is_second ? 1 : 0;
    return;
  }
  if (is_second) return missed(repo, answer == ModelNode::Answer::moved ? "moved" : "unreachable");
  stage_.agenda.after(news_time, [this, repo, number] { ask(repo, number, true); });
}

void Simulation::missed(int repo, const char* reason) {
  auto place = static_cast<std::size_t>(repo);
  auto& outcome = stage_.outcome;
  ++outcome.incomplete[reason];
  auto evicted = stage_.evicted[place];
  if (evicted != Time{} && stage_.agenda.now() - evicted < regretted) ++outcome.regretted;
  if (terms().records_demand && std::string_view(reason) == "unclaimed")
    demand_.on_asked(stage_.agenda.now(), stage_.repos[place].name);
  bool has_fault = false;
  for (auto& open : open_) {
    if (open.what.seconds >= 0) continue;
    has_fault = true;
    ++open.what.missed;
  }
  if (stage_.repos[place].spec.is_pinned && was_ready_[place] && !has_fault && !has_fault_)
    ++outcome.pinned_missed;
}

// As a router does once a second.
void Simulation::tell_demand() {
  for (;;) {
    auto asked = demand_.next(stage_.agenda.now());
    if (!asked) break;
    auto repo = stage_.repo_number.at(asked->repo);
    for (int slot = 0; slot < terms().replicas; ++slot) {
      auto row = repo * terms().replicas + slot;
      if (stage_.row(row).view.owner != nobody) continue;
      auto rank = fleet::rank_of(stage_.repos[static_cast<std::size_t>(repo)].spec, asked->queries,
                                 stage_.row(row).note.size_bytes);
      stage_.catalog.change(row, rank);
    }
  }
  stage_.agenda.after(1s, [this] { tell_demand(); });
}

// --- pins ----------------------------------------------------------------------------------------

// Pins the smallest repositories without an owner: they fit if something is evicted for them.
void Simulation::pin_some() {
  std::vector<int> candidates;
  for (std::size_t i = 0; i < stage_.outcome.rows; ++i) {
    const auto& row = stage_.row(static_cast<int>(i));
    if (row.owner == nobody && !stage_.repo_of(static_cast<int>(i)).spec.is_pinned)
      candidates.push_back(row.repo);
  }
  std::ranges::sort(candidates, {}, [this](int repo) {
    return stage_.repos.at(static_cast<std::size_t>(repo)).bytes;
  });
  candidates.erase(std::ranges::unique(candidates).begin(), candidates.end());
  candidates.resize(std::min(candidates.size(), static_cast<std::size_t>(terms().pins_later)));
  for (int id : candidates) {
    auto& repo = stage_.repos.at(static_cast<std::size_t>(id));
    repo.spec.is_pinned = true;
    for (int slot = 0; slot < terms().replicas; ++slot) {
      auto row = id * terms().replicas + slot;
      stage_.catalog.change(row, fleet::rank_of(repo.spec, 0, stage_.row(row).note.size_bytes));
    }
  }
  pinned_later_ = std::move(candidates);
}

// --- faults --------------------------------------------------------------------------------------

void Simulation::plan_faults() {
  const auto& faults = terms().faults;
  auto plan = [&](bool is_on, double when, Act act) {
    if (!is_on) return;
    first_fault_ = std::min(first_fault_, part(when));
    stage_.agenda.at(part(when), std::move(act));
  };
  plan(faults.kill, 0.40, [this] { kill_one("is killed"); });
  plan(faults.pause, 0.50, [this] { pause_one(); });
  plan(faults.cut, 0.55, [this] { cut_one(); });
  plan(faults.restart, 0.60, [this] { restart_catalog(); });
  plan(faults.stall, 0.64, [this] { stage_.catalog.stall(10s); });
  plan(faults.slow, 0.68, [this] { slow_hosts(); });
  plan(faults.drain, 0.80, [this] { drain_all(0); });
}

int Simulation::victim() {
  for (;;) {
    auto number = static_cast<int>(stage_.chance.below(stage_.nodes.size()));
    if (faulted_.contains(number) && faulted_.size() < stage_.nodes.size()) continue;
    faulted_.insert(number);
    return number;
  }
}

std::uint64_t Simulation::clones_of(const std::set<int>& rows) const {
  std::uint64_t sum = 0;
  std::set<int> repos;
  for (int row : rows) repos.insert(stage_.row(row).repo);
  for (int repo : repos) sum += stage_.clones[static_cast<std::size_t>(repo)];
  return sum;
}

void Simulation::lose(std::string what, const std::vector<int>& rows, Time since) {
  Open open{.what = {.what = std::move(what)}, .since = since};
  open.what.at = in_seconds(since.time_since_epoch());
  open.what.lost = rows.size();
  open.lost.insert(rows.begin(), rows.end());
  open.what.work = work_alone(rows);
  open.what.bound = in_seconds(terms().ttl) + 5 + open.what.work;
  open.rows = open.lost;
  open.clones_before = clones_of(open.rows);
  if (rows.empty()) open.what.seconds = 0;
  open_.push_back(std::move(open));
}

// The lost rows on those who are left, each on the first of its order that has room: how long cloning
// and building take when nobody has to wait for a lease or a turn.
double Simulation::work_alone(const std::vector<int>& rows) {
  auto candidates = stage_.catalog.candidates();
  std::erase_if(candidates, [this](const auto& one) {
    return !node(std::stoi(one.name.substr(1))).would_answer();
  });
  struct Load {
    double cloning = 0, building = 0, longest = 0;
  };
  std::map<std::string, Load> loads;
  std::vector<double> hosts(stage_.hosts.size());
  for (int row : rows) {
    const auto& repo = stage_.repo_of(row);
    auto order = fleet::order_for(repo.name, candidates, stage_.hot_bytes(repo));
    if (order.empty()) continue;
    auto& load = loads[order.front()];
    auto clone = stage_.clone_seconds(repo), build = stage_.build_seconds(repo);
    load.cloning += clone;
    load.building += build;
    load.longest = std::max(load.longest, clone + build);
    hosts[static_cast<std::size_t>(repo.host)] += repo.bytes * terms().world.packed;
  }
  double work = 0;
  for (const auto& [name, load] : loads)
    work = std::max(work, std::max(load.cloning / terms().clones, load.building / terms().builds) +
                              load.longest);
  auto speed = terms().world.host_mb_s * 1e6 * (has_fault_ ? 0.1 : 1);
  for (auto bytes : hosts) work = std::max(work, bytes / speed);
  return work;
}

void Simulation::kill_one(const std::string& why) {
  auto number = victim();
  auto rows = node(number).serving();
  node(number).kill();
  lose(fmt::format("n{} {}", number, why), rows, stage_.agenda.now());
  stage_.agenda.after(2min, [this, number] {
    if (!node(number).is_running()) node(number).start();
  });
}

void Simulation::pause_one() {
  auto number = victim();
  auto rows = node(number).serving();
  node(number).pause();
  lose(fmt::format("n{} is paused for 2 ttl", number), rows, stage_.agenda.now());
  stage_.agenda.after(2 * terms().ttl, [this, number] { node(number).resume(); });
}

void Simulation::cut_one() {
  auto number = victim();
  auto rows = node(number).serving();
  node(number).cut_off(true);
  lose(fmt::format("n{} is cut off for 2 ttl", number), rows, stage_.agenda.now());
  stage_.agenda.after(2 * terms().ttl, [this, number] { node(number).cut_off(false); });
}

void Simulation::restart_catalog() {
  std::vector<int> before;
  for (std::size_t i = 0; i < stage_.outcome.rows; ++i)
    if (stage_.row(static_cast<int>(i)).state == RowState::ready)
      before.push_back(static_cast<int>(i));
  auto since = stage_.agenda.now();
  stage_.catalog.restart(20s);
  stage_.agenda.after(20s, [this, before, since] {
    std::vector<int> rows;
    for (int row : before)
      if (stage_.row(row).state != RowState::ready) rows.push_back(row);
    lose("the catalog is away for 20 s", rows, since);
  });
}

void Simulation::slow_hosts() {
  has_fault_ = true;
  const auto& world = terms().world;
  for (auto& host : stage_.hosts) host->set_speed(world.host_mb_s * 1e5);
  stage_.agenda.after(10s, [this] { kill_one("is killed, git slow"); });
  stage_.agenda.after(4min, [this] {
    has_fault_ = false;
    for (auto& host : stage_.hosts) host->set_speed(terms().world.host_mb_s * 1e6);
  });
}

// One after the other: each is replaced by an empty one.
void Simulation::drain_all(std::size_t number) {
  if (number >= std::min(stage_.nodes.size(), most_drained)) return;
  auto one = static_cast<int>(number);
  auto rows = node(one).serving();
  auto since = stage_.agenda.now();
  auto missed_before = stage_.outcome.queries - stage_.outcome.complete;
  node(one).drain(drain_time, [this, one, rows, since, missed_before] {
    stage_.agenda.after(1s, [this, one, rows, since, missed_before] {
      std::vector<int> lost;
      for (int row : rows)
        if (stage_.row(row).state != RowState::ready) lost.push_back(row);
      lose(fmt::format("n{} is drained of {}", one, rows.size()), lost, since);
      if (lost.empty()) open_.back().what.seconds = in_seconds(stage_.agenda.now() - since) - 1;
      open_.back().what.missed = stage_.outcome.queries - stage_.outcome.complete - missed_before;
    });
    stage_.agenda.after(5s, [this, one] { node(one).start(); });
    stage_.agenda.after(20s, [this, one] { drain_all(static_cast<std::size_t>(one) + 1); });
  });
}

// --- what is written down ------------------------------------------------------------------------

void Simulation::sample() {
  Moment moment{.second = now(), .ready = stage_.catalog.ready()};
  for (const auto& one : stage_.nodes) moment.memory.push_back(one->memory());
  for (const auto& row : stage_.catalog.rows()) moment.unclaimed += row.owner == nobody ? 1 : 0;
  stage_.outcome.moments.push_back(std::move(moment));
  stage_.agenda.after(sample_interval, [this] { sample(); });
}

std::string Simulation::why_unserved(int id) {
  const auto& row = stage_.row(id);
  if (row.owner != nobody) {
    auto owner = stage_.catalog.session(row.owner).node;
    bool knows = node(owner).session() == row.owner;
    return knows ? "is being brought" : "its node is silent";
  }
  if (row.offered > stage_.agenda.now()) return fmt::format("waits: {}", row.error);
  std::string why;
  for (const auto& one : stage_.nodes) {
    auto says = one->why_not(id);
    if (says.contains("are free") || says.contains("no node has"))
      why = "needs more memory than is free on any node";
    else if (!says.contains("not on offer") && why.empty())
      why = says.contains("nearer") ? "its turn comes later" : says;
    if (says.empty()) return "is about to be claimed";
  }
  return why.empty() ? "is hidden behind other offers" : why;
}

void Simulation::finish() {
  auto& outcome = stage_.outcome;
  const auto& counters = stage_.catalog.counters();
  outcome.claims = counters.claims;
  outcome.claims_in_vain = counters.in_vain;
  outcome.reads = counters.reads;
  outcome.writes = counters.writes;
  outcome.beats = counters.beats;
  outcome.ready_at_end = stage_.catalog.ready();
  outcome.claimed = spread_of(std::move(claimed_));
  outcome.served = spread_of(outcome.served_seconds);
  if (terms().scaling.is_on) outcome.scaled = scaling_.result();
  outcome.pinned_later = static_cast<int>(pinned_later_.size());
  for (int repo : pinned_later_)
    outcome.pinned_later_served +=
        stage_.row(repo * terms().replicas).state == RowState::ready ? 1 : 0;
  for (auto& open : open_) {
    if (open.what.seconds < 0) open.what.clones = clones_of(open.rows) - open.clones_before;
    outcome.recoveries.push_back(open.what);
  }
  for (const auto& one : stage_.nodes) {
    outcome.demoted += one->counters().demoted;
    outcome.evicted += one->counters().evicted;
    outcome.memory_parts.push_back(one->worst_memory());
    outcome.worst_memory = std::max(outcome.worst_memory, one->worst_memory());
  }
  for (std::size_t i = 0; i < outcome.rows; ++i)
    if (stage_.row(static_cast<int>(i)).state != RowState::ready)
      ++outcome.unserved[why_unserved(static_cast<int>(i))];
}

Outcome Simulation::run() {
  make_repos();
  make_nodes();
  listen();
  plan_faults();
  next_query();
  if (terms().records_demand) tell_demand();
  if (terms().scaling.is_on) scaling_.start();
  if (terms().pins_later > 0) stage_.agenda.at(part(0.4), [this] { pin_some(); });
  sample();
  auto end = Time(terms().length);
  auto quiet = std::min(first_fault_, end);
  stage_.agenda.run(quiet - 1ms);
  if (idle_since_ && quiet - *idle_since_ >= 60s) {
    const auto& counters = stage_.catalog.counters();
    auto changed = static_cast<double>(counters.writes + counters.beats - idle_from_.writes -
                                       idle_from_.beats);
    auto intervals = in_seconds(quiet - *idle_since_) / in_seconds(terms().ttl / 5);
    stage_.outcome.idle_writes = changed / intervals / terms().nodes;
    stage_.outcome.was_idle = true;
  }
  stage_.agenda.run(end);
  finish();
  return std::move(stage_.outcome);
}

struct Word {
  const char* word;
  bool Faults::* fault;
};
constexpr std::array<Word, 7> fault_words{{{"kill", &Faults::kill},
                                           {"pause", &Faults::pause},
                                           {"cut", &Faults::cut},
                                           {"restart", &Faults::restart},
                                           {"stall", &Faults::stall},
                                           {"slow", &Faults::slow},
                                           {"drain", &Faults::drain}}};

}  // namespace

Result<Faults> parse_faults(std::string_view words) {
  Faults faults;
  if (words == "none") return faults;
  bool is_all = words == "all";
  if (is_all) words = "kill,pause,cut,restart,stall,slow,drain";
  while (!words.empty()) {
    auto word = words.substr(0, words.find(','));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    auto found = std::ranges::find(fault_words, word, &Word::word);
    if (found == fault_words.end())
      return fail(Errc::invalid,
                  "use none, all, or some of kill,pause,cut,restart,stall,slow,drain");
    faults.*found->fault = true;
  }
  return faults;
}

std::string words_of(const Faults& faults) {
  std::string all;
  for (const auto& [word, fault] : fault_words)
    if (faults.*fault) all += (all.empty() ? "" : ",") + std::string(word);
  return all.empty() ? "none" : all;
}

Spread spread_of(std::vector<double> values) {
  Spread spread{.count = values.size()};
  if (values.empty()) return spread;
  std::ranges::sort(values);
  auto at = [&](double part) {
    return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
  };
  spread.p50 = at(0.5);
  spread.p95 = at(0.95);
  spread.p99 = at(0.99);
  spread.max = values.back();
  return spread;
}

Outcome simulate(const Terms& terms) { return Simulation(terms).run(); }

}  // namespace warren::fleet_sim
