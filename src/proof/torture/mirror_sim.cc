#include "proof/torture/mirror_sim.h"

#include <map>

#include "proof/sim/servers.h"

namespace warren::mirror {

namespace {

using redis::Reply;
using sim::Connection;
using sim::Words;

constexpr auto patience = 2s;    // for one answer, as in mirror.cc
constexpr auto calm = 5s;        // until everything must have come right
constexpr auto oldest_age = 2s;  // then, of what a reader sees

enum : std::size_t { own_type, shared_type };  // written by one instance only, or by anybody

// What a schedule is like, drawn from its seed.
struct Plan {
  int instances, replicas;
  Clock::duration length;
  Clock::duration pause;  // between the writes of one instance
  bool has_old_peer, has_operator;
  bool is_faithful = true;  // servers lose nothing and are not replaced
  sim::Weather weather;
  MirrorTerms terms;
};

Plan plan_of(sim::World& world) {
  Plan plan;
  plan.instances = 2 + static_cast<int>(world.below(2));
  // Long, or busy enough for the log to be trimmed.
  bool is_busy = world.chance(0.04);
  plan.length = is_busy ? 250ms : world.between(300ms, 1500ms);
  plan.pause = is_busy ? 2ms : 50ms;
  plan.has_old_peer = world.chance(0.3);
  plan.has_operator = world.chance(0.05);
  auto& weather = plan.weather;
  weather.breaks = world.chance(0.7) ? 3 : 0;
  weather.pauses = world.chance(0.3) ? 1 : 0;
  weather.stops = world.chance(0.2) ? 1 : 0;
  weather.pause_most = weather.stop_most = weather.stale_most = 1s;
  weather.down_most = 300ms;
  weather.news_most = 500ms;
  plan.replicas = world.chance(0.5) ? 1 : 0;
  if (plan.replicas > 0) weather.failovers = world.chance(0.7) ? 1 : 0;
  if (world.chance(0.2)) {
    weather.restarts = 1;
    weather.loses_data = world.chance(0.5) ? 1 : 0;
  }
  plan.is_faithful = weather.failovers == 0 && weather.loses_data == 0 && !plan.has_operator;

  auto& terms = plan.terms;
  terms.prefix = "{c}:";
  terms.channel = "foghorn:{c}:state_updates";
  terms.types = {{"own", "own:"}, {"shared", "shared:"}};
  terms.log_entries = world.chance(0.2) ? 20 : 1000;
  terms.resync_pause = 100ms;
  terms.resync_spread = 50ms;
  terms.compare_pause = 500ms;  // so slow that it repairs nothing before the end
  return plan;
}

class Schedule;

// One instance: the real machine, on a simulated connection.
class Instance {
 public:
  Instance(Schedule& schedule, Connection& connection, const MirrorTerms& terms, int number,
           Flaws flaws);

  void put(Batch batch, std::optional<std::uint64_t> own);
  void go_on();

  const Machine& machine() const { return machine_; }
  Connection& connection() { return connection_; }
  // Of the values of its own that it was told are written and has seen, the newest; none once
  // history was rewritten.
  std::optional<std::uint64_t> seen_own() const { return seen_own_; }
  int number() const { return number_; }

 private:
  struct Pending {
    std::shared_ptr<Receipt> receipt;
    std::uint64_t own;
  };
  void send(Request request);
  void look();
  void check_order();
  void check_reads(const Snapshot& now);

  Schedule& schedule_;
  Connection& connection_;
  int number_;
  Machine machine_;
  Clock::time_point timer_ = Clock::time_point::max();
  std::vector<Pending> pending_;
  std::optional<std::uint64_t> seen_own_;
  std::uint64_t told_own_ = 0;
  Version told_version_;

  bool may_go_back_ = false;  // at the next snapshot: it was told that history was rewritten
  std::shared_ptr<const Snapshot> last_;
  Version last_version_;
  std::uint64_t last_applied_ = 0, last_snapshots_ = 0;
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, Flaws flaws);
  SimulatedSchedule run();

  void fail(const char* invariant, std::string what) {
    if (!violation_) violation_ = history::Violation{invariant, std::move(what), {}};
  }
  // An answer said that this was written; from here on it is old news.
  void on_written(Version version) { written_[world_.now()] = std::max(newest_, version); }
  Version written_before(Clock::time_point time) const {
    auto after = written_.lower_bound(time);
    return after == written_.begin() ? Version{} : std::prev(after)->second;
  }
  sim::World& world() { return world_; }
  const Plan& plan() const { return plan_; }

 private:
  void write(Instance& instance);
  void write_as_old_peer();
  void operate();
  void check_end();
  void check_end(Instance& instance, const std::map<std::string, std::string>& values);

  sim::World world_;
  Plan plan_;
  sim::Servers servers_;
  std::vector<std::unique_ptr<Instance>> instances_;
  Connection* old_peer_ = nullptr;
  Clock::time_point end_;
  std::uint64_t values_ = 0;  // each is written once only
  std::map<Clock::time_point, Version> written_;
  Version newest_;
  history::Verdict violation_;
};

Instance::Instance(Schedule& schedule, Connection& connection, const MirrorTerms& terms, int number,
                   Flaws flaws)
    : schedule_(schedule),
      connection_(connection),
      number_(number),
      machine_(
          terms, fmt::format("w{}", number), [&world = schedule.world()] { return world.unit(); },
          flaws),
      last_(machine_.snapshot()) {
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
    machine_.on_message(schedule_.world().now(), message.channel, message.payload);
    go_on();
  };
  connection_.ssubscribe(terms.log_channel());
  connection_.subscribe(terms.channel);
}

void Instance::put(Batch batch, std::optional<std::uint64_t> own) {
  auto receipt = machine_.put(std::move(batch));
  if (receipt && own) pending_.push_back({*receipt, *own});
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
  auto words =
      request.script ? sim::words_of(*request.script, request.words, request.args) : request.words;
  redis::CallOptions options;
  if (request.kind != Request::Kind::write) options = options.idempotent();
  auto deadline = schedule_.world().now() + patience;
  auto kept = std::make_shared<Request>(std::move(request));  // functions of the world are copied
  connection_.call(
      std::move(words), deadline,
      [this, kept](const Result<Reply>& reply) {
        machine_.on_reply(schedule_.world().now(), std::move(*kept), reply);
        go_on();
      },
      options);
}

// After every step, as a reader would.
void Instance::look() {
  for (auto& [receipt, own] : pending_) {
    if (!receipt->result || !*receipt->result) continue;
    told_own_ = std::max(told_own_, own);
    told_version_ = **receipt->result;
    schedule_.on_written(**receipt->result);
  }
  std::erase_if(pending_, [](const Pending& p) { return p.receipt->result.has_value(); });
  const auto& now = machine_.snapshot();
  if (!machine_.take_rewrites().empty()) {
    may_go_back_ = true;
    seen_own_.reset();
    told_own_ = 0;
    told_version_ = {};
  }
  check_order();
  if (now != last_ && !std::exchange(may_go_back_, false)) check_reads(*now);
  if (told_own_ > 0 && machine_.fate_of(told_version_) == Fate::applied) seen_own_ = told_own_;
  last_ = now;
  if (!schedule_.plan().is_faithful || !machine_.is_ready()) return;
  auto fresh_at = schedule_.world().now() - now->age(schedule_.world().now());
  if (now->version() < schedule_.written_before(fresh_at))
    schedule_.fail(
        "I10", fmt::format("instance {} claims to have all of {} ms ago, but has only {}", number_,
                           (schedule_.world().now() - fresh_at) / 1ms, to_string(now->version())));
}

// Ids are dense within an epoch: as many entries as the version grew by.
void Instance::check_order() {
  const auto& counters = machine_.counters();
  auto position = machine_.position().version;
  bool follows =
      machine_.phase() == MirrorPhase::catch_up || machine_.phase() == MirrorPhase::tailing;
  bool is_same =
      follows && counters.snapshots == last_snapshots_ && position.epoch == last_version_.epoch;
  if (is_same && position.sequence - last_version_.sequence != counters.applied - last_applied_)
    schedule_.fail("I10", fmt::format("instance {} went from {} to {} with {} entries", number_,
                                      to_string(last_version_), to_string(position),
                                      counters.applied - last_applied_));
  last_version_ = position;
  last_applied_ = counters.applied;
  last_snapshots_ = counters.snapshots;
}

// Values of an own entity grow; nothing of it is read that is older than what was.
void Instance::check_reads(const Snapshot& now) {
  auto number_in = [](const Entity* entity) {
    return entity ? std::strtoull(std::string(entity->value()).c_str(), nullptr, 10) : 0;
  };
  last_->table(own_type).each([&](const Entity& before) {
    auto then = number_in(&before), later = number_in(now.find(own_type, before.id()));
    if (later < then)
      schedule_.fail("I11", fmt::format("instance {} read {} of {} at {}, and then {} at {}",
                                        number_, then, before.id(), to_string(last_->version()),
                                        later, to_string(now.version())));
  });
  if (now.version() < last_->version())
    schedule_.fail("I11", fmt::format("instance {} went back from {} to {}", number_,
                                      to_string(last_->version()), to_string(now.version())));
  auto own = number_in(now.find(own_type, std::to_string(number_)));
  // What an operator deletes while it is being loaded may go unnoticed.
  if (schedule_.plan().has_operator) return;
  if (machine_.fate_of(told_version_) == Fate::applied && own < told_own_)
    schedule_.fail("I11", fmt::format("instance {} was told that {} is written, and reads {}",
                                      number_, told_own_, own));
}

Schedule::Schedule(std::uint64_t seed, Flaws flaws)
    : world_(seed),
      plan_(plan_of(world_)),
      servers_(world_, {.replicas = plan_.replicas, .weather = plan_.weather}) {
  for (int i = 0; i < plan_.instances; ++i)
    instances_.push_back(
        std::make_unique<Instance>(*this, servers_.connect(), plan_.terms, i, flaws));
  if (plan_.has_old_peer || plan_.has_operator) old_peer_ = &servers_.connect();
}

SimulatedSchedule Schedule::run() {
  end_ = world_.now() + plan_.length;
  servers_.begin_faults();
  for (auto& instance : instances_)
    world_.after(world_.between(0ms, 100ms), [this, &instance] { write(*instance); });
  if (plan_.has_old_peer) world_.after(30ms, [this] { write_as_old_peer(); });
  if (plan_.has_operator) world_.after(world_.between(100ms, plan_.length), [this] { operate(); });
  world_.run_until(end_);
  servers_.end_faults();
  world_.run_until(end_ + calm);
  if (!violation_) check_end();
  return {world_.actions_done(), std::move(violation_)};
}

void Schedule::write(Instance& instance) {
  if (world_.now() >= end_) return;
  instance.connection().after(0ms, [this, &instance] {
    Batch batch;
    std::optional<std::uint64_t> own;
    if (world_.chance(0.6)) {
      own = ++values_;
      batch.push_back({own_type, std::to_string(instance.number()), std::to_string(*own)});
    }
    if (!own || world_.chance(0.5)) {
      Change change{shared_type, std::to_string(world_.below(4)), {}};
      if (world_.chance(0.8)) change.value = fmt::format("{}", ++values_);
      batch.push_back(std::move(change));
    }
    instance.put(std::move(batch), own);
  });
  world_.after(world_.between(0ms, 2 * plan_.pause), [this, &instance] { write(instance); });
}

void Schedule::write_as_old_peer() {
  if (world_.now() >= end_) return;
  auto id = std::to_string(world_.below(4));
  auto deadline = world_.now() + patience;
  Words change{"DEL", "{c}:shared:" + id};
  if (world_.chance(0.8)) change = {"SET", "{c}:shared:" + id, fmt::format("{}", ++values_)};
  // What it sets and cannot tell is its own loss, and nobody's to find: it tries again.
  auto tell = [this, id](auto& again) -> void {
    old_peer_->call({"PUBLISH", plan_.terms.channel, R"({"type":"shared","id":")" + id + "\"}"},
                    world_.now() + patience, [this, again](const Result<Reply>& told) {
                      if (!told) old_peer_->after(10ms, [again] { again(again); });
                    });
  };
  old_peer_->call(std::move(change), deadline, [tell](const Result<Reply>&) { tell(tell); });
  world_.after(world_.between(0ms, 200ms), [this] { write_as_old_peer(); });
}

void Schedule::operate() {
  Words order{"FLUSHALL"};
  if (world_.chance(0.5)) order = {"DEL", plan_.terms.log_key()};
  old_peer_->call(std::move(order), world_.now() + patience, [](const Result<Reply>&) {});
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
  for (auto& instance : instances_) check_end(*instance, values);
}

void Schedule::check_end(Instance& instance, const std::map<std::string, std::string>& values) {
  const auto& machine = instance.machine();
  auto told = [&](std::string what) {
    fail("I10",
         fmt::format("after {} s of calm instance {} {}", calm / 1s, instance.number(), what));
  };
  const auto& snapshot = *machine.snapshot();
  std::map<std::string, std::string> seen;
  for (auto type : {own_type, shared_type})
    snapshot.table(type).each([&](const Entity& entity) {
      seen[plan_.terms.prefix + plan_.terms.types[type].folder + std::string(entity.id())] =
          entity.value();
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
  auto own = values.find(plan_.terms.prefix + "own:" + std::to_string(instance.number()));
  auto there = own == values.end() ? 0 : std::strtoull(own->second.c_str(), nullptr, 10);
  // What an operator deletes while it is being loaded may go unnoticed.
  if (!plan_.has_operator && instance.seen_own() && there < *instance.seen_own())
    fail("I11", fmt::format("instance {} wrote and read {}, which is lost, and was not told",
                            instance.number(), *instance.seen_own()));
  if (machine.outbox().waiting() > 0)
    fail("I12", fmt::format("instance {} still has something to write", instance.number()));
}

}  // namespace

SimulatedSchedule simulate(std::uint64_t seed, Flaws flaws) { return Schedule(seed, flaws).run(); }

}  // namespace warren::mirror
