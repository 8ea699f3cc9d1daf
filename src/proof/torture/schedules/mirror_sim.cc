#include "proof/torture/schedules/mirror_sim.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bitset>
#include <map>

#include "primitives/mirror/patience.h"
#include "proof/history/linearizable.h"
#include "proof/sim/servers.h"
#include "proof/torture/schedules/mirror_truth.h"

namespace warren::mirror {

namespace {

using redis::Reply;
using sim::Connection;
using sim::Words;

constexpr auto least_calm = 5s;  // until everything must have come right
constexpr auto oldest_age = 2s;  // then, of what a reader sees
// By then a change is everywhere, if nothing at all is wrong.
constexpr auto longest_journey = 20ms;
constexpr std::size_t search_budget = 20'000;  // for an order of the operations on a key

enum Fault : std::size_t {
  connection_lost,
  slow_network,
  narrow_links,
  process_cut_off,
  process_paused,
  process_restarted,
  server_stopped,
  server_restarted,
  server_wiped,
  server_restored,
  failover_that_lost_nothing,
  failover_that_lost_writes,
  failover_with_stale_primary,
  clock_stepped,
  slots_half_moved,
  out_of_memory,  // from here on as in sim::FaultKind
  cannot_save,
  no_permission,
  loading,
  read_only,
  write_refused_for_good,
  old_peer,
  key_evicted,
  all_flushed,
  log_deleted,
  head_deleted,
  large_puts,
  write_retried,
  prepared_write_retried,
  log_trimmed_past_a_reader,
  history_rewritten,
  none_at_all,
  fault_count
};
constexpr std::array<const char*, fault_count> fault_names{
    "connection lost",
    "slow network",
    "narrow links",
    "process cut off",
    "process paused",
    "process restarted",
    "server stopped",
    "server restarted",
    "server wiped",
    "server restored from a backup",
    "failover that lost nothing",
    "failover that lost writes",
    "failover with a stale primary",
    "server's clock stepped",
    "slots half moved",
    "out of memory",
    "cannot save",
    "no permission",
    "loading",
    "read-only",
    "write refused for good",
    "older peer",
    "key evicted",
    "all flushed",
    "log deleted",
    "head of the log deleted",
    "large puts",
    "write retried",
    "prepared write retried",
    "log trimmed past a reader",
    "history rewritten",
    "no fault",
};
using Faults = std::bitset<fault_count>;

constexpr std::size_t refusal_count = read_only - out_of_memory + 1;
constexpr auto first_refusal = static_cast<std::size_t>(sim::FaultKind::out_of_memory);
static_assert(sim::fault_count == first_refusal + refusal_count);

// The properties of a schedule, drawn from its seed.
struct Plan {
  int instances = 2, replicas = 0;
  Clock::duration length;
  Clock::duration pause = 50ms;  // between the writes of one instance
  Faults faults;                 // that will occur
  bool fails_over = false;       // the schedule shows with what loss
  bool trims_exactly = false;    // as with stream-node-max-entries 1
  sim::Weather weather;
  MirrorTerms terms;

  bool has(Fault fault) const { return faults[fault]; }
  bool has_operator() const { return has(all_flushed) || has(log_deleted) || has(head_deleted); }
  bool has_outsiders() const { return has_operator() || has(old_peer) || has(key_evicted); }
  // Servers lose nothing and are not replaced.
  bool is_faithful() const {
    return !fails_over && !has(server_wiped) && !has(server_restored) && !has_operator();
  }
  // The log or its head was removed while the values stayed: only the end is judged.
  bool judges_steps() const { return !has(log_deleted) && !has(head_deleted); }
  // A server that starts again in the same epoch repeats versions.
  bool has_unique_versions() const {
    return !has(server_wiped) && !has(server_restored) && !has_operator();
  }
  // How long until everything must have come right. While slots move, a page of a load has few
  // keys. A load that was in vain when the calm began is repeated, at two journeys for each page.
  Clock::duration calm() const {
    if (!has(slots_half_moved)) return least_calm;
    constexpr auto keys =
        keys::counts[keys::own] + keys::counts[keys::shared] + keys::counts[keys::bulk];
    return least_calm + 2 * weather.delay_most * std::int64_t(keys / terms.load_page + 1);
  }
  // Every server that answers has everything that is old enough.
  bool judges_age() const { return !has(failover_with_stale_primary) && has_unique_versions(); }
};

Plan plan_of(sim::World& world) {
  Plan plan;
  auto may_have = [&](Fault fault, double probability) {
    if (world.chance(probability)) plan.faults.set(fault);
  };
  plan.instances = 2 + static_cast<int>(world.below(2));
  plan.length = world.between(300ms, 1000ms);
  auto& weather = plan.weather;
  weather.news_most = 500ms;
  if (world.chance(0.07)) {
    weather.slow = 0;
    plan.faults.set(none_at_all);
  } else {
    may_have(connection_lost, 0.5);
    may_have(slow_network, 0.15);
    may_have(narrow_links, 0.1);
    may_have(process_cut_off, 0.15);
    may_have(process_paused, 0.25);
    may_have(process_restarted, 0.2);
    may_have(server_stopped, 0.15);
    may_have(server_restarted, 0.12);
    may_have(server_wiped, 0.1);
    may_have(clock_stepped, 0.1);
    may_have(old_peer, 0.25);
    may_have(key_evicted, 0.1);
    may_have(large_puts, 0.15);
    if (world.chance(0.5)) plan.faults.set(out_of_memory + world.below(refusal_count));
    plan.replicas = world.chance(0.45) ? 1 : 0;
    if (plan.replicas > 0) {
      plan.fails_over = world.chance(0.7);
      if (plan.fails_over) may_have(failover_with_stale_primary, 0.5);
      if (plan.fails_over) weather.long_lag = 0.1;
      if (!plan.fails_over) may_have(slots_half_moved, 0.9);
      // What was left on a server that loses its data is only a part of the whole.
      if (plan.has(slots_half_moved)) plan.faults.reset(server_wiped);
    } else {
      may_have(server_restored, 0.16);
      if (world.chance(0.45))
        plan.faults.set(all_flushed + static_cast<std::size_t>(world.below(3)));
    }
    if (world.chance(0.15)) {  // so that much happens during a load
      plan.pause = 5ms;
      plan.length = 250ms;
    }
  }
  if (plan.has(slow_network)) weather.delay_most = world.between(1ms, 20ms);
  if (plan.has(narrow_links)) weather.bandwidth = 50'000 + 150'000 * world.unit();

  auto& terms = plan.terms;
  terms.prefix = "{c}:";
  terms.channel = "foghorn:{c}:state_updates";
  terms.types = {{"own", keys::folders[keys::own]},
                 {"shared", keys::folders[keys::shared]},
                 {"bulk", keys::folders[keys::bulk]}};
  plan.trims_exactly = !plan.has(none_at_all) && world.chance(0.3);
  terms.log_entries = plan.trims_exactly ? 1 + world.below(8) : 1000;
  if (plan.has(slots_half_moved)) terms.load_page = 1 + world.below(8);  // so that it takes a while
  terms.resync_pause = 100ms;
  terms.resync_spread = 50ms;
  // So slow that it repairs nothing before the end, unless nothing else would.
  terms.compare_pause = plan.has(key_evicted) || plan.has(all_flushed) ? 10ms : 500ms;
  return plan;
}

// The script with some of its text replaced. Kept, because a server remembers its scripts by their
// hashes.
const redis::Script& variant_of(const redis::Script& script, bool trims_exactly,
                                const Mistakes& mistakes) {
  thread_local std::map<std::string, redis::Script> variants;
  auto source = script.source();
  auto replace = [&](std::string_view part, std::string_view by) {
    auto at = source.find(part);
    ensure(at != std::string::npos, "write.lua has the part that is replaced");
    source.replace(at, part.size(), by);
  };
  if (trims_exactly) replace("'MAXLEN', '~'", "'MAXLEN', '='");
  if (!mistakes.in_script.empty()) replace(mistakes.in_script, mistakes.instead);
  return variants.try_emplace(source, script.name(), source).first->second;
}

history::Token token_of(Version version) { return {version.epoch, version.sequence}; }

class Schedule;

// One instance: the real machine, on a simulated connection.
class Instance {
 public:
  Instance(Schedule& schedule, Connection& connection, std::size_t number);

  void put(Batch batch);
  void go_on();

  const Machine& machine() const { return machine_; }
  Connection& connection() { return connection_; }
  std::size_t number() const { return number_; }
  bool is_alive() const { return !connection_.is_closed(); }
  void kill() { connection_.close(); }
  // Whether a write was acknowledged, and is neither applied nor given up.
  bool awaits() const { return !awaited_.empty(); }
  void note_end(history::MirrorHistory& history) const;

 private:
  struct Pending {
    std::shared_ptr<Receipt> receipt;
    Truth::Changes changes;
    std::size_t operation;  // the index of the first one in the schedule's
    Clock::time_point put_at;
  };
  struct Awaited {
    const Truth::Entry* entry;
    Clock::time_point put_at;
  };
  void send(Request request);
  void on_reply(const Request& request, const Result<Reply>& reply);
  void look();
  void look_at_receipts();
  void look_at_rewrites();
  void check_order();
  void check_snapshot();
  bool is_told(const Truth::Entry& next) const;
  void check_contents(const Truth::Entry& at);
  void check_fates();
  void check_age();
  void fail(const char* invariant, const std::string& what);
  Number number_at(std::size_t key) const;
  std::uint64_t digest() const;

  Schedule& schedule_;
  Connection& connection_;
  std::size_t number_;
  Machine machine_;
  Clock::time_point timer_ = Clock::time_point::max();
  std::vector<Pending> pending_;
  std::vector<Awaited> awaited_;
  std::uint64_t prepared_ = 0;  // the number of a batch that was prepared early

  std::vector<HistoryRewritten> told_;  // since the last snapshot
  std::shared_ptr<const Snapshot> last_;
  const Truth::Entry* shown_;  // the entry at which it is
  const Truth::Entry* place_;  // the entry of the last step
  MirrorPhase last_phase_ = MirrorPhase::cold;
  std::uint64_t last_applied_ = 0, last_snapshots_ = 0;
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, const Mistakes& mistakes);
  SimulatedSchedule run();

  void fail(const char* invariant, std::string what) {
    if (!violation_) violation_ = history::Violation{invariant, std::move(what), {}};
  }
  void note(Fault fault) { had_.set(fault); }
  const redis::Script& script_for(const redis::Script& script) const {
    bool is_changed = plan_.trims_exactly || !mistakes_.in_script.empty();
    if (script.name() != "write" || !is_changed) return script;
    return variant_of(script, plan_.trims_exactly, mistakes_);
  }
  void know_write(const std::string& hash) {
    if (write_hash_ != hash) write_hash_ = hash;
  }
  // The write of a prepared batch leaves; often the instance does not come back.
  void on_prepared_write(Instance& instance);
  // Operations on registers, if they are judged.
  std::size_t begin_writes(std::size_t process, const Batch& batch);
  void end_writes(std::size_t first, std::size_t count);
  void add_reads(const Instance& reader, Clock::time_point called);

  sim::World& world() { return world_; }
  const Plan& plan() const { return plan_; }
  const Mistakes& mistakes() const { return mistakes_; }
  const Truth& truth() const { return truth_; }
  history::MirrorHistory& history() { return history_; }

 private:
  void start_instance();
  Instance* any_instance();
  void write(Instance& instance);
  void put_much(Instance& instance);
  void write_as_old_peer();
  void operate();
  void begin(Fault fault);
  void strike(Fault fault);
  void cut_off(Connection& connection);
  void fail_over(bool is_stale);
  void move_slots();
  void restore_later();
  void note_faults_of_servers();
  void on_executed(const Words& words, const Reply& reply);
  void check_journey(Version version);
  void check_end();
  void check_end(Instance& instance, const std::map<std::string, std::string>& values);
  void judge(const std::map<std::string, std::string>& values);
  void judge_registers();

  sim::World world_;
  Mistakes mistakes_;
  Plan plan_;
  Truth truth_;
  sim::Servers servers_;
  std::vector<std::unique_ptr<Instance>> instances_;  // including killed ones
  Connection* outsider_ = nullptr;
  std::string write_hash_;  // of the script
  Clock::time_point end_;
  Number values_ = 0;  // each is written only once
  Faults had_;
  history::MirrorHistory history_;
  std::vector<history::Operation> operations_;
  history::Verdict violation_;
  SimulatedSchedule::Search search_ = SimulatedSchedule::Search::none;
};

Instance::Instance(Schedule& schedule, Connection& connection, std::size_t number)
    : schedule_(schedule),
      connection_(connection),
      number_(number),
      machine_(
          schedule.plan().terms, fmt::format("w{}", number),
          [&world = schedule.world()] { return world.unit(); }, schedule.mistakes().machine),
      last_(machine_.snapshot()),
      shown_(schedule.truth().find(Position().stamp)),
      place_(shown_) {
  if (schedule.plan().has(slots_half_moved)) machine_.expect_moves();
  connection_.on_settled = [this] {
    machine_.on_subscribed(schedule_.world().now());
    go_on();
  };
  connection_.on_gap = [this] {
    machine_.on_gap(schedule_.world().now());
    go_on();
  };
  connection_.on_connected = [this] {
    machine_.on_connected(schedule_.world().now(), connection_.epoch());
    go_on();
  };
  connection_.on_message = [this](const sim::Message& message) {
    if (schedule_.mistakes().drops_pushes && message.is_sharded) return;
    machine_.on_message(schedule_.world().now(), message.channel, message.payload);
    go_on();
  };
  connection_.ssubscribe(schedule.plan().terms.log_channel());
  connection_.subscribe(schedule.plan().terms.channel);
}

void Instance::fail(const char* invariant, const std::string& what) {
  schedule_.fail(invariant, fmt::format("instance {} {}", number_, what));
}

void Instance::put(Batch batch) {
  Pending pending{.receipt = {},
                  .changes = {},
                  .operation = schedule_.begin_writes(number_, batch),
                  .put_at = schedule_.world().now()};
  for (const auto& change : batch)
    pending.changes.emplace_back(keys::firsts[change.type] + number_in(change.id),
                                 change.value ? number_in(*change.value) : 0);
  if (auto receipt = machine_.put(std::move(batch))) {
    pending.receipt = *receipt;
    pending_.push_back(std::move(pending));
  }
  go_on();
}

void Instance::go_on() {
  while (auto request = machine_.next(schedule_.world().now())) send(*std::move(request));
  machine_.publish();
  look();
  auto wake = machine_.wake_at();
  if (wake >= timer_ || wake == Clock::time_point::max()) return;
  timer_ = wake;
  connection_.at(wake, [this, wake] {
    if (timer_ != wake) return;  // an earlier one was set since
    timer_ = Clock::time_point::max();
    go_on();
  });
}

void Instance::send(Request request) {
  if (request.kind == Request::Kind::write) {
    const auto& attempt = request.args.at(3);
    bool is_retried = attempt.find('.') != std::string::npos;
    if (is_retried) schedule_.note(write_retried);
    bool is_prepared = prepared_ == number_in(attempt);
    if (is_prepared && is_retried) schedule_.note(prepared_write_retried);
    if (is_prepared && !is_retried) schedule_.on_prepared_write(*this);
    schedule_.know_write(schedule_.script_for(*request.script).hash());
  }
  auto kept = std::make_shared<Request>(std::move(request));  // functions of the world are copied
  auto words = kept->script
                   ? sim::words_of(schedule_.script_for(*kept->script), kept->words, kept->args)
                   : kept->words;
  auto options = options_for(*kept, schedule_.world().now());
  if (!kept->server.empty()) {
    auto server = sim::Servers::server_at(*redis::parse_address(kept->server, 0));
    return connection_.call_at(
        server, std::move(words), options.deadline(),
        [this, kept](const Result<Reply>& reply) { on_reply(*kept, reply); });
  }
  connection_.call(
      std::move(words), options.deadline(),
      [this, kept](const Result<Reply>& reply) { on_reply(*kept, reply); }, options);
}

void Instance::on_reply(const Request& request, const Result<Reply>& reply) {
  if (request.kind == Request::Kind::catch_up && reply && !reply->items.empty()) {
    const auto& fields = reply->items[0].items;
    const auto* stamp = fields.size() > 1 ? fields[1].find("s") : nullptr;
    const auto* first = stamp ? schedule_.truth().find(stamp->text) : nullptr;
    if (first && place_ && first->depth > place_->depth + 1 && Truth::is_before(*place_, *first))
      schedule_.note(log_trimmed_past_a_reader);
  }
  if (request.kind == Request::Kind::write && !reply && reply.error().code == Errc::denied)
    schedule_.note(write_refused_for_good);
  machine_.on_reply(schedule_.world().now(), request, reply);
  go_on();
}

// After every step, as a reader would.
void Instance::look() {
  if (schedule_.plan().judges_steps()) {
    look_at_receipts();
    look_at_rewrites();
    check_order();
    if (machine_.snapshot() != last_) check_snapshot();
    check_fates();
    check_age();
  }
  const auto& outbox = machine_.outbox();
  // One batch is under way, and no put waits after the next one: they are one batch.
  if (outbox.waiting() == 2 && outbox.changes() == 0)
    prepared_ = machine_.counters().writes + machine_.counters().refused_writes + 2;
}

// Checks that every acknowledged write is in the log where the answer said.
void Instance::look_at_receipts() {
  auto now = schedule_.world().now();
  for (auto& pending : pending_) {
    auto& result = pending.receipt->result;
    if (!result || !*result) continue;
    auto version = **result;
    schedule_.history().acknowledged(now, static_cast<history::ProcessId>(number_),
                                     token_of(version));
    schedule_.end_writes(pending.operation, pending.changes.size());
    const auto* entry = schedule_.truth().find(number_, version, pending.changes);
    if (!entry) {
      fail("I5", fmt::format("was told that what it put is written at {}, which it is not",
                             to_string(version)));
      continue;
    }
    awaited_.push_back({entry, pending.put_at});
  }
  std::erase_if(pending_, [](const Pending& p) { return p.receipt->result.has_value(); });
}

void Instance::look_at_rewrites() {
  auto rewrites = machine_.take_rewrites();
  if (schedule_.mistakes().hides_rewrites) return;
  for (const auto& rewrite : rewrites) {
    told_.push_back(rewrite);
    schedule_.note(history_rewritten);
    auto from = token_of(rewrite.after);
    ++from.counter;
    schedule_.history().history_rewritten(schedule_.world().now(),
                                          static_cast<history::ProcessId>(number_), from);
    if (rewrite.certain && schedule_.plan().is_faithful())
      fail("I11", "says that history was rewritten, which it was not");
  }
}

// Each step goes along the history, by as many entries as were applied.
void Instance::check_order() {
  auto at_a_place = [](MirrorPhase phase) {
    return phase == MirrorPhase::snapshot || phase == MirrorPhase::catch_up ||
           phase == MirrorPhase::tailing;
  };
  const auto& counters = machine_.counters();
  const auto* place = schedule_.truth().find(machine_.position().stamp);
  if (!place) return fail("I10", "is at " + machine_.position().stamp + ", which nobody wrote");
  bool goes_on = at_a_place(last_phase_) && counters.snapshots == last_snapshots_;
  if (place == place_ && counters.applied == last_applied_ && goes_on) {
    last_phase_ = machine_.phase();
    return;
  }
  auto reader = static_cast<history::ProcessId>(number_);
  auto now = schedule_.world().now();
  if (goes_on) {
    std::vector<const Truth::Entry*> steps;
    const auto* entry = place;
    for (auto n = counters.applied - last_applied_; n > 0 && entry; --n, entry = entry->before)
      steps.push_back(entry);
    if (entry != place_)
      fail("I10", fmt::format("went from {} to {} with {} entries", place_->at.stamp,
                              place->at.stamp, counters.applied - last_applied_));
    for (auto step = steps.rbegin(); step != steps.rend(); ++step)
      schedule_.history().applied(now, reader, token_of((*step)->at.version));
  } else if (at_a_place(machine_.phase())) {
    schedule_.history().resynced(now, reader, token_of(machine_.position().version));
  }
  place_ = place;
  last_phase_ = machine_.phase();
  last_applied_ = counters.applied;
  last_snapshots_ = counters.snapshots;
}

Number Instance::number_at(std::size_t key) const {
  std::size_t type = keys::folders.size() - 1;
  while (key < keys::firsts[type]) --type;
  const auto* entity = last_->find(type, std::to_string(key - keys::firsts[type]));
  return entity ? number_in(entity->value()) : 0;
}

std::uint64_t digest_of(std::size_t key, Number number) {
  auto mixed = (number * keys::all + key + 1) * 0x9e3779b97f4a7c15;
  return number == 0 ? 0 : mixed ^ (mixed >> 29);
}

std::uint64_t Instance::digest() const {
  std::uint64_t sum = 0;
  for (std::size_t key = 0; key < place_->values.size(); ++key)
    sum += digest_of(key, number_at(key));
  return sum;
}

// Whether a reported rewrite covers every entry that was shown and that `next` does not have.
bool Instance::is_told(const Truth::Entry& next) const {
  return std::ranges::any_of(told_, [&](const HistoryRewritten& rewrite) {
    const auto* still = shown_;
    while (still->at.version > rewrite.after) still = still->before;
    return rewrite.until >= shown_->at.version && Truth::is_before(*still, next);
  });
}

void Instance::check_snapshot() {
  last_ = machine_.snapshot();
  const auto* entry = place_;
  if (entry->depth > 0 && machine_.position().stamp != Position().stamp &&
      last_->version() != entry->at.version)
    fail("I10", fmt::format("shows {} as {}", entry->at.stamp, to_string(last_->version())));
  if (!Truth::is_before(*shown_, *entry) && !is_told(*entry))
    fail("I11",
         fmt::format("went from {} {} to {} {}, of another history, and was told {}",
                     to_string(shown_->at.version), shown_->at.stamp, to_string(entry->at.version),
                     entry->at.stamp, told_.empty() ? "nothing" : "too little"));
  told_.clear();
  shown_ = entry;
  check_contents(*entry);
  auto now = schedule_.world().now();
  schedule_.history().read(now, static_cast<history::ProcessId>(number_),
                           token_of(last_->version()), last_->age(now),
                           schedule_.plan().has_outsiders() ? 0 : digest());
}

void Instance::check_contents(const Truth::Entry& at) {
  for (std::size_t key = 0; key < at.values.size(); ++key) {
    auto number = number_at(key);
    if (!schedule_.truth().allows(at, key, number, schedule_.plan().is_faithful()))
      fail("I10",
           fmt::format("has {} of {} at {} {}, and the log says {}", number, keys::name_of(key),
                       to_string(at.at.version), at.at.stamp, at.values[key].number));
  }
}

// Our writes that count as applied are in the history that readers see.
void Instance::check_fates() {
  std::erase_if(awaited_, [&](const Awaited& awaited) {
    auto fate = machine_.fate_of(awaited.entry->at.version);
    if (fate == Fate::awaited) return false;
    if (fate != Fate::applied) return true;
    // If versions repeat, a version does not identify a write.
    if (!Truth::is_before(*awaited.entry, *shown_) &&
        schedule_.truth().is_unique(awaited.entry->at.version))
      fail("I11", fmt::format("counts {} as applied, and reads {}", awaited.entry->at.stamp,
                              shown_->at.stamp));
    auto now = schedule_.world().now();
    schedule_.history().session_read(now, static_cast<history::ProcessId>(number_),
                                     token_of(last_->version()), last_->age(now));
    schedule_.add_reads(*this, awaited.put_at);
    return true;
  });
}

void Instance::check_age() {
  if (!schedule_.plan().judges_age() || !machine_.is_ready()) return;
  auto age = last_->age(schedule_.world().now());
  if (last_->version() < schedule_.truth().written_before(schedule_.world().now() - age))
    fail("I10", fmt::format("claims to have all of {} ms ago, but has only {}", age / 1ms,
                            to_string(last_->version())));
}

void Instance::note_end(history::MirrorHistory& history) const {
  std::uint64_t sum = 0;
  for (std::size_t key = 0; key < place_->values.size(); ++key)
    sum += digest_of(key, number_at(key));
  history.contents(schedule_.world().now(), static_cast<history::ProcessId>(number_), sum);
}

Schedule::Schedule(std::uint64_t seed, const Mistakes& mistakes)
    : world_(seed),
      mistakes_(mistakes),
      plan_(plan_of(world_)),
      truth_(plan_.has(large_puts) ? keys::all : keys::few),
      servers_(world_, {.replicas = plan_.replicas,
                        .weather = plan_.weather,
                        .is_cluster = plan_.has(slots_half_moved),
                        .slots = {redis::slot_of(plan_.terms.head_key())}}) {
  servers_.on_executed = [this](int, const Words& words, const Reply& reply) {
    on_executed(words, reply);
  };
  for (int i = 0; i < plan_.instances; ++i) start_instance();
  if (plan_.has_outsiders()) outsider_ = &servers_.connect();
}

SimulatedSchedule Schedule::run() {
  end_ = world_.now() + plan_.length;
  if (plan_.has(slow_network)) note(slow_network);
  if (plan_.has(none_at_all)) note(none_at_all);
  if (plan_.has(old_peer)) world_.after(30ms, [this] { write_as_old_peer(); });
  for (std::size_t fault = 0; fault < fault_count; ++fault)
    if (plan_.faults[fault]) begin(static_cast<Fault>(fault));
  if (plan_.fails_over) begin(failover_that_lost_writes);
  world_.run_until(end_ + plan_.calm());
  note_faults_of_servers();
  if (!violation_) check_end();
  SimulatedSchedule result{world_.actions_done(), std::move(violation_), {}, search_};
  for (std::size_t fault = 0; fault < fault_count; ++fault)
    if (had_[fault]) result.faults.push_back(fault_names[fault]);
  if (result.violation)
    result.violation->events.push_back(fmt::format("it had {}", fmt::join(result.faults, ", ")));
  return result;
}

// Once, or a few times.
void Schedule::begin(Fault fault) {
  for (int times = world_.chance(0.5) ? 1 : 3; times > 0; --times)
    world_.after(world_.between(0ms, plan_.length), [this, fault] { strike(fault); });
}

// The faults that affected something.
void Schedule::note_faults_of_servers() {
  for (const auto& happened : servers_.happened()) {
    auto kind = static_cast<std::size_t>(happened.fault);
    if (happened.fault == sim::FaultKind::narrow_link) note(narrow_links);
    if (happened.fault == sim::FaultKind::half_moved_slots && happened.acted)
      note(slots_half_moved);
    if (happened.acted && kind >= first_refusal)
      note(static_cast<Fault>(out_of_memory + kind - first_refusal));
  }
}

void Schedule::start_instance() {
  auto& instance = instances_.emplace_back(
      std::make_unique<Instance>(*this, servers_.connect(), instances_.size()));
  world_.after(world_.between(0ms, 100ms), [this, &i = *instance] { write(i); });
}

Instance* Schedule::any_instance() {
  auto& instance = instances_[world_.below(instances_.size())];
  return instance->is_alive() ? instance.get() : nullptr;
}

void Schedule::strike(Fault fault) {
  if (world_.now() >= end_) return;
  auto* instance = any_instance();
  auto any_server = static_cast<int>(world_.below(static_cast<std::uint64_t>(servers_.size())));
  switch (fault) {
    case connection_lost: {
      auto socket = world_.chance(0.5) ? sim::Socket::data : sim::Socket::messages;
      if (!instance || !instance->connection().is_connected(socket)) return;
      instance->connection().break_link(socket);
      return note(fault);
    }
    case process_cut_off:
      if (!instance) return;
      cut_off(instance->connection());
      return note(fault);
    case process_paused:
      if (!instance) return;
      instance->connection().pause(world_.between(0ms, 1s));
      return note(fault);
    case process_restarted:
      if (!instance || instances_.size() == Truth::most_writers) return;
      instance->kill();
      start_instance();
      return note(fault);
    case server_stopped:
      servers_.stop(any_server, world_.between(0ms, 1s));
      return note(fault);
    case server_restarted:
      servers_.restart(any_server, world_.between(0ms, 300ms), true);
      return note(fault);
    case server_wiped:
      servers_.restart(servers_.primary(), world_.between(0ms, 300ms), false);
      truth_.on_other_server(world_.now());
      return note(fault);
    case server_restored:
      return restore_later();
    case failover_that_lost_writes:
      return fail_over(plan_.has(failover_with_stale_primary) && world_.chance(0.7));
    case clock_stepped:
      servers_.step_clock(any_server, world_.between(-3600s, 3600s));
      return note(fault);
    case slots_half_moved:
      return move_slots();
    case out_of_memory:
    case cannot_save:
    case no_permission:
    case loading:
    case read_only:
      return servers_.refuse(servers_.primary(),
                             static_cast<sim::FaultKind>(first_refusal + fault - out_of_memory),
                             world_.between(10ms, 300ms));
    case key_evicted:
    case all_flushed:
    case log_deleted:
    case head_deleted:
      return operate();
    case large_puts:
      if (instance) put_much(*instance);
      return;
    default:
      return;
  }
}

// So that it notices, or does not.
void Schedule::cut_off(Connection& connection) {
  auto time = world_.between(0ms, 1s);
  if (world_.chance(0.5))
    connection.cut_off(time);
  else
    connection.fall_silent(time, world_.between(0ms, time));
}

void Schedule::fail_over(bool is_stale) {
  auto losses = [this] {
    return std::ranges::count(servers_.happened(), sim::FaultKind::lost_writes,
                              &sim::Happened::fault);
  };
  for (int server = 0; server < servers_.size(); ++server) {
    if (server == servers_.primary() || !servers_.is_following(server)) continue;
    // Usually a primary is replaced because it does not answer.
    if (world_.chance(0.3)) servers_.stop(servers_.primary(), world_.between(0ms, 500ms));
    auto lost_before = losses();
    servers_.failover(server, is_stale ? world_.between(1ms, 1s) : 0s);
    truth_.on_other_server(world_.now());
    note(losses() > lost_before ? failover_that_lost_writes : failover_that_lost_nothing);
    if (is_stale) note(failover_with_stale_primary);
    return;
  }
}

// Often during a load, and sometimes so fast that a load sees the beginning and the end.
void Schedule::move_slots() {
  auto load_time = 16 * plan_.weather.delay_most;
  bool is_fast = world_.chance(0.4);
  if (world_.chance(0.5)) strike(process_restarted);
  world_.after(world_.between(0s, load_time), [this, load_time, is_fast] {
    int other = 1 - servers_.primary();
    if (world_.now() >= end_ || !servers_.can_move_to(other)) return;
    auto most = is_fast ? load_time : plan_.weather.half_moved_most;
    servers_.move_key_by_key(other, world_.between(10us, most));
  });
}

// Later restores the present state.
void Schedule::restore_later() {
  auto backup = std::make_shared<sim::ModelRedis>(servers_.model(0));
  world_.after(world_.between(1ms, 200ms), [this, backup] {
    if (world_.now() >= end_) return;
    servers_.restart(0, world_.between(0ms, 100ms), true);
    servers_.model(0) = *backup;
    truth_.on_other_server(world_.now());
    note(server_restored);
  });
}

void Schedule::write(Instance& instance) {
  if (world_.now() >= end_ || !instance.is_alive()) return;
  instance.connection().after(0ms, [this, &instance] {
    Batch batch;
    bool is_own = world_.chance(0.6);
    if (is_own)
      batch.push_back({keys::own, std::to_string(instance.number()), std::to_string(++values_)});
    if (!is_own || world_.chance(0.5)) {
      Change change{keys::shared, std::to_string(world_.below(keys::counts[keys::shared])), {}};
      if (world_.chance(0.7)) change.value = std::to_string(++values_);
      batch.push_back(std::move(change));
    }
    instance.put(std::move(batch));
  });
  world_.after(world_.between(0ms, 2 * plan_.pause), [this, &instance] { write(instance); });
}

// So much at once that the next batch is prepared while one is under way.
void Schedule::put_much(Instance& instance) {
  note(large_puts);
  for (int i = 0; i < 2; ++i) {
    Batch batch;
    for (std::size_t id = 0; id < keys::counts[keys::bulk]; ++id)
      batch.push_back({keys::bulk, std::to_string(id), std::to_string(++values_)});
    instance.put(std::move(batch));
  }
}

void Schedule::on_prepared_write(Instance& instance) {
  if (world_.now() >= end_ || !world_.chance(0.7)) return;
  world_.after(world_.between(0ms, 2 * plan_.weather.delay_most), [&instance] {
    if (instance.is_alive()) instance.connection().break_link(sim::Socket::data);
  });
}

void Schedule::write_as_old_peer() {
  if (world_.now() >= end_) return;
  note(old_peer);
  auto id = std::to_string(world_.below(keys::counts[keys::shared]));
  auto deadline = world_.now() + patience;
  Words change{"DEL", "{c}:shared:" + id};
  if (world_.chance(0.8)) change = {"SET", "{c}:shared:" + id, fmt::format("{}", ++values_)};
  // A change that it sets but cannot publish is its own loss, and no reader has to find it: it
  // tries again.
  auto tell = [this, id](auto& again) -> void {
    outsider_->call({"PUBLISH", plan_.terms.channel, R"({"type":"shared","id":")" + id + "\"}"},
                    world_.now() + patience, [this, again](const Result<Reply>& told) {
                      if (!told) outsider_->after(10ms, [again] { again(again); });
                    });
  };
  outsider_->call(std::move(change), deadline, [tell](const Result<Reply>&) { tell(tell); });
  world_.after(world_.between(0ms, 4 * plan_.pause), [this] { write_as_old_peer(); });
}

// The actions of an operator, or of a server that has run out of memory.
void Schedule::operate() {
  auto order = [&](Fault fault, Words words) {
    outsider_->call(std::move(words), world_.now() + patience,
                    [this, fault](const Result<Reply>& done) {
                      if (done) note(fault);
                    });
  };
  if (plan_.has(key_evicted))
    order(key_evicted, {"DEL", plan_.terms.prefix + keys::name_of(world_.below(keys::few))});
  if (plan_.has(all_flushed)) order(all_flushed, {"FLUSHALL"});
  if (plan_.has(log_deleted)) order(log_deleted, {"DEL", plan_.terms.log_key()});
  if (plan_.has(head_deleted)) order(head_deleted, {"DEL", plan_.terms.head_key()});
}

void Schedule::on_executed(const Words& words, const Reply& reply) {
  if (reply.is_error()) return;
  if (words[0] == "EVALSHA") {
    if (words[1] != write_hash_) return;
    auto wrong = truth_.on_written(world_.now(), words, reply);
    if (wrong && !plan_.has(head_deleted)) fail("I5", *wrong);  // the head knows what is done
    auto version = reply.items.empty() ? std::nullopt : parse_version(reply.items[0].text);
    if (plan_.has(none_at_all) && version) check_journey(*version);
  } else if (words[0] == "FLUSHALL") {
    truth_.on_flushed();
  } else if (words[0] == "SET" || words[0] == "DEL") {
    if (words[1] == plan_.terms.head_key()) return truth_.on_head_deleted();
    if (words[1] == plan_.terms.log_key()) return;
    auto key = keys::number_of(std::string_view(words[1]).substr(plan_.terms.prefix.size()));
    if (key) truth_.on_outside(*key, words.size() > 2 ? number_in(words[2]) : 0);
  }
}

// If nothing is wrong a push arrives, and is applied at once.
void Schedule::check_journey(Version version) {
  for (auto& instance : instances_) {
    if (!instance->machine().is_ready()) continue;
    world_.after(longest_journey, [this, version, &reader = *instance] {
      if (reader.machine().snapshot()->version() < version)
        fail("I10", fmt::format("instance {} does not have {} after {} ms, and nothing was wrong",
                                reader.number(), to_string(version), longest_journey / 1ms));
    });
  }
}

std::size_t Schedule::begin_writes(std::size_t process, const Batch& batch) {
  auto first = operations_.size();
  for (const auto& change : batch)
    operations_.push_back(
        {.key = static_cast<std::uint32_t>(keys::firsts[change.type] + number_in(change.id)),
         .process = static_cast<history::ProcessId>(process),
         .kind = history::Operation::Kind::write,
         .argument = change.value ? number_in(*change.value) : history::absent,
         .called = world_.now()});
  return first;
}

void Schedule::end_writes(std::size_t first, std::size_t count) {
  for (auto i = first; i < first + count; ++i) operations_[i].returned = world_.now();
}

// A process that waits until its write is applied sees everything written before it asked for that.
void Schedule::add_reads(const Instance& reader, Clock::time_point called) {
  auto id = world_.below(keys::counts[keys::shared]);
  const auto* entity = reader.machine().snapshot()->find(keys::shared, std::to_string(id));
  operations_.push_back({.key = static_cast<std::uint32_t>(keys::firsts[keys::shared] + id),
                         .process = static_cast<history::ProcessId>(reader.number()),
                         .kind = history::Operation::Kind::read,
                         .result = entity ? number_in(entity->value()) : history::absent,
                         .called = called,
                         .returned = world_.now()});
}

void Schedule::check_end() {
  auto& server = servers_.model(servers_.primary());
  auto now_us = servers_.wall_us(servers_.primary());
  std::map<std::string, std::string> values;
  std::string cursor = "0";
  do {
    auto page = server.run({"SCAN", cursor, "MATCH", "{c}:*", "COUNT", "1000"}, now_us);
    cursor = page.items.at(0).text;
    for (const auto& key : page.items.at(1).items)
      if (!key.text.starts_with("{c}:mirror:")) {
        auto value = server.run({"GET", key.text}, now_us);
        values[key.text] = value.text;
      }
  } while (cursor != "0");
  for (auto& instance : instances_)
    if (instance->is_alive()) check_end(*instance, values);
  if (!violation_) judge(values);
  if (!violation_ && plan_.is_faithful() && !plan_.has_outsiders()) judge_registers();
}

void Schedule::check_end(Instance& instance, const std::map<std::string, std::string>& values) {
  const auto& machine = instance.machine();
  auto told = [&](std::string what) {
    fail("I10", fmt::format("after {} s of calm instance {} {}", plan_.calm() / 1s,
                            instance.number(), what));
  };
  const auto& snapshot = *machine.snapshot();
  std::map<std::string, std::string> seen;
  for (std::size_t type = 0; type < keys::folders.size(); ++type)
    snapshot.table(type).each([&](const Entity& entity) {
      seen[plan_.terms.prefix + keys::folders[type] + std::string(entity.id())] = entity.value();
    });
  if (machine.phase() != MirrorPhase::tailing) told("is not following");
  for (const auto& [key, value] : values)
    if (seen[key] != value)
      told(fmt::format("has '{}' of {}, which is '{}'", seen[key], key, value));
  for (const auto& [key, value] : seen)
    if (!values.contains(key) && !value.empty())
      told(fmt::format("has '{}' of {}, which is not there", value, key));
  auto tail =
      servers_.model(servers_.primary())
          .run({"HGET", plan_.terms.head_key(), "tail"}, servers_.wall_us(servers_.primary()));
  auto position = tail.is_null() ? Position{} : parse_tail(tail.text).value_or(Tail{}).at;
  if (machine.position() != position)
    told(fmt::format("is at {} of {}", to_string(machine.position().version), tail.text));
  if (snapshot.age(world_.now()) > oldest_age)
    told(fmt::format("does not know for {} ms whether it has all",
                     snapshot.age(world_.now()) / 1ms));
  if (instance.awaits()) told("still waits for what it wrote");
  if (machine.outbox().waiting() > 0)
    fail("I12", fmt::format("instance {} still has something to write", instance.number()));
}

// A second opinion, from what was recorded.
void Schedule::judge(const std::map<std::string, std::string>& values) {
  if (!plan_.judges_steps()) return;
  auto now = world_.now();
  const Truth::Entry* tail = nullptr;
  for (auto& instance : instances_) {
    if (!instance->is_alive()) continue;
    instance->note_end(history_);
    tail = truth_.find(instance->machine().position().stamp);
  }
  std::uint64_t there = 0;
  for (const auto& [key, value] : values)
    if (auto number = keys::number_of(std::string_view(key).substr(plan_.terms.prefix.size())))
      there += digest_of(*number, number_in(value));
  history_.server_contents(now, there);
  for (; tail && tail->before; tail = tail->before) {
    std::uint64_t sum = 0;
    for (std::size_t key = 0; key < tail->values.size(); ++key)
      sum += digest_of(key, tail->values[key].number);
    history_.logged(now, token_of(tail->at.version), sum);
  }
  history::MirrorBounds bounds;
  if (!plan_.is_faithful()) {
    history_.data_lost(now);
    bounds.lost_before = bounds.lost_after = plan_.length + plan_.calm();
  }
  history_.sort();
  history::MirrorJudge judge(history_, bounds);
  // Entries of two histories cannot be told apart by their ids alone.
  if (plan_.is_faithful())
    violation_ = judge.first_violation();
  else if (auto found = judge.contents_are_equal())
    violation_ = found;
  else if (auto other = judge.snapshots_are_the_log())
    violation_ = other;
  else if (plan_.has_unique_versions())
    violation_ = judge.reads_are_monotonic();
}

void Schedule::judge_registers() {
  auto judged = history::check_linearizable(operations_, search_budget);
  search_ = judged.answer == history::Linearizability::Answer::out_of_budget
                ? SimulatedSchedule::Search::undecided
                : SimulatedSchedule::Search::decided;
  if (judged.answer == history::Linearizability::Answer::illegal)
    fail("I10", judged.text(operations_));
}

}  // namespace

SimulatedSchedule simulate(std::uint64_t seed, const Mistakes& mistakes) {
  return Schedule(seed, mistakes).run();
}

std::span<const char* const> mirror_faults() { return fault_names; }

}  // namespace warren::mirror
