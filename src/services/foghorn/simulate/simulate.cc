#include "services/foghorn/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "services/foghorn/simulate/observer.h"

namespace warren::simulate {

namespace {

constexpr auto report_interval = 10s;
constexpr auto share_interval = 200ms;
constexpr auto crowd_comes_within = 20.0;  // seconds

Clock::time_point at(double second) {
  return Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(second)));
}
double seconds(Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

struct Viewer {
  Visit visit;
  std::string address, correlation_id = {};
  std::size_t node = 0;
  bool is_here = false;
  double until = 0;
  std::uint64_t leaves_by = 0;  // the event by which it leaves, unless it was cut off before
};

class Simulation {
 public:
  explicit Simulation(const Terms& terms)
      : terms_(terms),
        world_(terms),
        observers_(static_cast<std::size_t>(terms.instances)),
        random_(terms.seed + 2),
        end_(at(static_cast<double>(terms.length.count()))) {}

  Outcome run() {
    begin();
    while (!events_.empty() && events_.top().at < end_) {
      auto event = events_.top();
      events_.pop();
      now_ = event.at;
      handle(event);
    }
    if (viewing_ > 0) outcome_.short_time = short_ / viewing_;
    return std::move(outcome_);
  }

 private:
  enum class Kind {
    visit,
    ask,
    arrive,
    leave,
    report,
    share,
    second,
    die,
    revive,
    silence,
    speak,
    drain,
    undrain,
    crowd
  };
  struct Event {
    Clock::time_point at;
    std::uint64_t order;  // of two at the same time the older one comes first
    Kind kind;
    std::size_t index;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  std::uint64_t later(Clock::time_point time, Kind kind, std::size_t index = 0) {
    events_.push({time, ++order_, kind, index});
    return order_;
  }

  void begin();
  void begin_faults();
  void plan(const char* what, double from, double to, std::size_t step, Kind first, Kind last);
  void handle(const Event& event);

  void next_visit();
  void gather_crowd();
  void ask(std::size_t viewer);
  void arrive(std::size_t viewer);
  void leave(const Event& event);
  void part(Viewer& viewer);  // it is no longer where it was

  void hear(WorldNode& node);
  void die(std::size_t node);
  void revive(WorldNode& node);
  void share();
  void sample();

  // The instance that a node is connected to.
  Observer& owner(std::size_t node) { return observers_[node % observers_.size()]; }
  const std::string& stream_of(const Viewer& viewer) const {
    return world_.streams[static_cast<std::size_t>(viewer.visit.stream)];
  }

  Terms terms_;
  World world_;
  std::vector<Observer> observers_;
  std::vector<Viewer> viewers_;
  std::mt19937_64 random_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  Clock::time_point now_ = {}, end_;
  Visit next_;
  double viewing_ = 0, short_ = 0;
  Outcome outcome_;
};

void Simulation::begin() {
  for (std::size_t n = 0; n < world_.nodes.size(); ++n) {
    hear(world_.nodes[n]);
    auto part = static_cast<double>(n) / static_cast<double>(world_.nodes.size());
    later(at(part * std::chrono::duration<double>(report_interval).count()), Kind::report, n);
  }
  if (terms_.shares_penalties && observers_.size() > 1) later(now_, Kind::share);
  later(now_, Kind::second);
  begin_faults();
  next_ = world_.next_visit();
  later(at(next_.second), Kind::visit);
}

void Simulation::begin_faults() {
  if (terms_.faults.deaths) plan("die", 0.25, 0.40, 20, Kind::die, Kind::revive);
  if (terms_.faults.silence) plan("are silent", 0.42, 0.60, 20, Kind::silence, Kind::speak);
  if (terms_.faults.drain) plan("drain", 0.62, 0.75, 10, Kind::drain, Kind::undrain);
  if (!terms_.faults.crowd) return;
  auto from = 0.8 * static_cast<double>(terms_.length.count());
  later(at(from), Kind::crowd);
  outcome_.faults.push_back(
      {static_cast<int>(from), static_cast<int>(from + crowd_comes_within), "a crowd"});
}

void Simulation::plan(const char* what, double from, double to, std::size_t step, Kind first,
                      Kind last) {
  auto length = static_cast<double>(terms_.length.count());
  int count = 0;
  for (std::size_t n = static_cast<std::size_t>(first) % std::min(step, world_.nodes.size());
       n < world_.nodes.size(); n += step, ++count) {
    later(at(from * length), first, n);
    later(at(to * length), last, n);
  }
  outcome_.faults.push_back({static_cast<int>(from * length), static_cast<int>(to * length),
                             fmt::format("{} {} {}", count, count == 1 ? "node" : "nodes", what)});
}

void Simulation::handle(const Event& event) {
  switch (event.kind) {
    case Kind::visit:
      return next_visit();
    case Kind::ask:
      return ask(event.index);
    case Kind::arrive:
      return arrive(event.index);
    case Kind::leave:
      return leave(event);
    case Kind::share:
      return share();
    case Kind::second:
      return sample();
    case Kind::crowd:
      return gather_crowd();
    case Kind::die:
      return die(event.index);
    default:
      break;
  }
  auto& node = world_.nodes[event.index];
  switch (event.kind) {
    case Kind::report:
      later(now_ + report_interval, Kind::report, event.index);
      if (node.is_alive && !node.is_silent) hear(node);
      return;
    case Kind::revive:
      return revive(node);
    case Kind::silence:
      node.is_silent = true;
      return;
    case Kind::speak:
      node.is_silent = false;
      return;
    case Kind::drain:
    case Kind::undrain:
      node.mode =
          event.kind == Kind::drain ? balance::NodeMode::draining : balance::NodeMode::normal;
      if (node.is_alive && !node.is_silent) hear(node);
      return;
    default:
      return;
  }
}

// --- viewers -------------------------------------------------------------------------------------

void Simulation::next_visit() {
  viewers_.push_back({.visit = next_, .address = fmt::format("v{}", viewers_.size())});
  ask(viewers_.size() - 1);
  next_ = world_.next_visit();
  later(at(next_.second), Kind::visit);
}

void Simulation::gather_crowd() {
  for (int i = 0; i < world_.crowd_size(); ++i) {
    viewers_.push_back(
        {.visit = world_.crowd_visit(), .address = fmt::format("v{}", viewers_.size())});
    later(at(seconds(now_) + between(random_, 0, crowd_comes_within)), Kind::ask,
          viewers_.size() - 1);
  }
}

void Simulation::ask(std::size_t index) {
  auto& viewer = viewers_[index];
  auto& asked = observers_[static_cast<std::size_t>(viewer.visit.instance)];
  auto sent = asked.send(now_, world_, viewer.visit, viewer.address, terms_.policy);
  if (!sent) {
    ++outcome_.refused;
    return;
  }
  ++outcome_.sent;
  viewer.node = sent->node;
  viewer.correlation_id = std::move(sent->correlation_id);
  if (viewer.visit.delay >= 0) later(at(seconds(now_) + viewer.visit.delay), Kind::arrive, index);
}

void Simulation::arrive(std::size_t index) {
  auto& viewer = viewers_[index];
  auto& node = world_.nodes[viewer.node];
  if (!node.is_alive) return ask(index);
  viewer.is_here = true;
  viewer.until = seconds(now_) + viewer.visit.stay;
  viewer.leaves_by = later(at(viewer.until), Kind::leave, index);
  ++node.connections;
  auto [carried, is_new] = node.streams.try_emplace(viewer.visit.stream);
  if (is_new) carried->second = {0, true, true};
  ++carried->second.viewers;
  if (node.is_silent) return;
  owner(viewer.node).arrived(node);
  for (std::size_t i = 0; i < observers_.size(); ++i)
    if (terms_.tells_arrivals || i == viewer.node % observers_.size())
      observers_[i].settle(now_, node, stream_of(viewer), viewer.correlation_id, viewer.address);
}

void Simulation::leave(const Event& event) {
  auto& viewer = viewers_[event.index];
  if (!viewer.is_here || viewer.leaves_by != event.order) return;
  part(viewer);
  auto& node = world_.nodes[viewer.node];
  if (!node.is_silent) owner(viewer.node).left(now_, node, stream_of(viewer), viewer.address);
}

void Simulation::part(Viewer& viewer) {
  auto& node = world_.nodes[viewer.node];
  viewer.is_here = false;
  --node.connections;
  auto carried = node.streams.find(viewer.visit.stream);
  if (--carried->second.viewers == 0 && carried->second.is_pulled) node.streams.erase(carried);
}

// --- nodes ---------------------------------------------------------------------------------------

void Simulation::hear(WorldNode& node) {
  for (auto& observer : observers_) observer.hear(now_, world_, node);
}

void Simulation::die(std::size_t index) {
  auto& node = world_.nodes[index];
  node.is_alive = false;
  for (auto& observer : observers_) observer.lose(node);
  for (std::size_t i = 0; i < viewers_.size(); ++i) {
    auto& viewer = viewers_[i];
    if (!viewer.is_here || viewer.node != index) continue;
    part(viewer);
    viewer.visit.stay = viewer.until - seconds(now_);
    later(at(seconds(now_) + between(random_, 1, 3)), Kind::ask, i);
  }
}

void Simulation::revive(WorldNode& node) {
  node.is_alive = true;
  hear(node);
}

void Simulation::share() {
  later(now_ + share_interval, Kind::share);
  std::vector<std::map<std::string, std::uint64_t>> own;
  for (const auto& observer : observers_) own.push_back(observer.penalties());
  for (std::size_t i = 0; i < observers_.size(); ++i) {
    std::map<std::string, std::uint64_t> sums;
    for (std::size_t k = 0; k < own.size(); ++k) {
      if (k == i) continue;
      for (const auto& [node, bandwidth] : own[k]) sums[node] += bandwidth;
    }
    observers_[i].set_peer_penalties(sums);
  }
}

void Simulation::sample() {
  later(now_ + 1s, Kind::second);
  for (auto& observer : observers_) observer.outdate(now_);
  std::vector<double> loads;
  Moment moment;
  moment.second = static_cast<int>(std::lround(seconds(now_)));
  for (const auto& node : world_.nodes) {
    moment.viewers += node.connections;
    viewing_ += node.connections;
    if (node.load() > 1) short_ += node.connections;
    if (node.is_alive) loads.push_back(node.load());
  }
  if (!loads.empty()) {
    std::ranges::sort(loads);
    for (auto load : loads) moment.mean += load / static_cast<double>(loads.size());
    moment.p99 = loads[(loads.size() - 1) * 99 / 100];
    moment.max = loads.back();
  }
  outcome_.moments.push_back(moment);
}

}  // namespace

Result<Faults> parse_faults(std::string_view words) {
  if (words == "none") return Faults{};
  if (words == "all") return Faults{true, true, true, true};
  Faults faults;
  while (!words.empty()) {
    auto word = words.substr(0, words.find(','));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    if (word == "deaths")
      faults.deaths = true;
    else if (word == "silence")
      faults.silence = true;
    else if (word == "drain")
      faults.drain = true;
    else if (word == "crowd")
      faults.crowd = true;
    else
      return fail(Errc::invalid, "use none, all, or some of deaths,silence,drain,crowd");
  }
  return faults;
}

Outcome simulate(const Terms& terms) { return Simulation(terms).run(); }

}  // namespace warren::simulate
