// How long a decision takes, alone and during reports, compared with a naive balancer in the same
// run. The workload is that of the recorded figures in docs/benchmarks.md.
#include <array>
#include <cstdlib>
#include <new>
#include <random>

#include "base/error.h"
#include "bench_foghorn.h"
#include "measure.h"
#include "naive_balancer.h"
#include "report.h"
#include "services/foghorn/balance/choose.h"
#include "services/foghorn/balance/view.h"

using namespace warren;
using namespace warren::balance;
using namespace warren::bench;

namespace {
thread_local std::size_t allocations = 0;
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

constexpr int rounds = 5;
constexpr const char* hot = "hot";

struct Size {
  int nodes, streams;
  std::string name() const { return fmt::format("{}x{}", nodes, streams); }
};

std::string node_id(int n) { return fmt::format("edge-{:04}", n); }
std::string stream_name(int s) { return fmt::format("stream-{:06}", s); }

class Workload {
 public:
  explicit Workload(Size size)
      : size_(size),
        random_(static_cast<unsigned>(size.nodes)),
        carried_(static_cast<std::size_t>(size.nodes)) {
    for (int n = 0; n < size.nodes; ++n) {
      put_node(n);
      builder.put_holding(hot, node_id(n), holding(n > 0));
      naive.put_holding(hot, node_id(n), holding(n > 0));
    }
    for (int s = 0; s < size.streams; ++s) {
      names.push_back(stream_name(s));
      builder.put_stream({.name = names.back(), .is_live = true});
      for (int k = 0; k < 3; ++k) {
        int n = (7 * s + 13 * k) % size.nodes;
        carried_[static_cast<std::size_t>(n)].push_back(s);
        builder.put_holding(names.back(), node_id(n), holding(k > 0));
        naive.put_holding(names.back(), node_id(n), holding(k > 0));
      }
    }
    table = builder.publish();
  }

  // A node reports its state and that of 50 of its streams; some streams twice if it has fewer.
  void report() {
    int n = static_cast<int>(random_() % static_cast<unsigned>(size_.nodes));
    builder.put_node(facts(n));
    for (std::size_t i = 0; i < 50; ++i) change_one(n, i);
    table = builder.publish();
  }
  // The number of viewers of one stream changes on one node.
  void change_one(int n, std::size_t i) {
    const auto& streams = carried_[static_cast<std::size_t>(n)];
    auto changed = holding(true);
    changed.viewers = static_cast<std::uint32_t>(random_());
    builder.put_holding(names[static_cast<std::size_t>(streams[i % streams.size()])], node_id(n),
                        changed);
  }

  std::string_view some_stream() { return names[random_() % names.size()]; }

  TableBuilder builder;
  NaiveBalancer naive;
  std::shared_ptr<const RoutingTable> table;
  std::vector<std::string> names;

 private:
  static Holding holding(bool is_replicated) {
    return {.inputs = 1, .is_replicated = is_replicated, .viewers = 10};
  }
  double between(double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random_);
  }
  NodeFacts facts(int n) {
    constexpr double gib = 1024.0 * 1024 * 1024;
    NodeFacts node;
    node.id = node_id(n);
    node.base_url = fmt::format("https://{}.example", node.id);
    node.is_healthy = true;
    node.is_stale = false;
    node.latitude = between(-70, 70);
    node.longitude = between(-180, 180);
    node.cpu_percent = between(0, 80);
    node.ram_max = 64 * gib;
    node.ram_current = between(0, 32 * gib);
    node.bw_limit = 1.25e9;
    node.up_speed = between(0, 6e8);
    node.cap_edge = true;
    return node;
  }
  void put_node(int n) {
    auto node = facts(n);
    builder.put_node(node);
    naive.put_node(node);
  }

  Size size_;
  std::mt19937 random_;
  std::vector<std::vector<int>> carried_;  // streams, by node
};

Query viewer(std::string_view stream, Policy policy) {
  Query query;
  query.stream = stream;
  query.latitude = 52.1;
  query.longitude = 4.3;
  query.policy = policy;
  return query;
}

struct Case {
  const char* name;
  bool is_hot;
  Policy policy;

  Query ask(Workload& workload) const {
    return viewer(is_hot ? hot : workload.some_stream(), policy);
  }
};
constexpr std::array cases{Case{"cold", false, Policy::compat}, Case{"hot", true, Policy::compat},
                           Case{"fair", false, Policy::fair}};

struct Times {
  std::vector<double> us;

  double at(double part) {
    std::ranges::sort(us);
    return us[static_cast<std::size_t>(part * static_cast<double>(us.size() - 1))];
  }
};

std::size_t found = 0;  // prevents the compiler from removing the work

void decide(Workload& workload, const Case& one, int count, Times& times) {
  for (int i = 0; i < count; ++i) {
    auto query = one.ask(workload);
    auto start = Clock::now();
    auto decision = choose(*workload.table, query);
    times.us.push_back(1e6 * seconds_since(start));
    found += decision.count;
  }
}

void decide_naively(Workload& workload, const Case& one, int count, Times& times) {
  for (int i = 0; i < count; ++i) {
    auto query = one.ask(workload);
    auto start = Clock::now();
    auto ids = workload.naive.choose(query);
    times.us.push_back(1e6 * seconds_since(start));
    found += ids.size();
  }
}

void check_same(Workload& workload, const Case& one) {
  auto query = one.ask(workload);
  auto decision = choose(*workload.table, query);
  auto ids = workload.naive.choose(query);
  ensure(decision.count == ids.size() && decision.count > 0, "both find as many");
  for (std::size_t i = 0; i < ids.size(); ++i)
    ensure(node_at(*workload.table, decision.best[i].node)->id == ids[i], "both find the same");
}

struct Bars {
  std::optional<double> p50, p99;
};

Bars bars_for(Size size) {
  if (size.nodes == 100) return {5, 20};
  if (size.nodes == 1000) return {30, 100};
  return {};
}

void print_us(const std::string& name, double value, std::optional<double> bar = {}) {
  print({.bench = "foghorn." + name,
         .value = value,
         .unit = "us",
         .bar = bar,
         .better = Better::lower});
}

void measure_case(Workload& workload, Size size, const Case& one) {
  for (int i = 0; i < 10; ++i) check_same(workload, one);
  Times ours, naive;
  int naive_count = std::max(4, 40'000 / (size.nodes + size.streams));
  for (int round = 0; round < rounds; ++round) {
    decide(workload, one, 10'000, ours);
    decide_naively(workload, one, naive_count, naive);
  }
  auto name = fmt::format("decision.{}.{}", size.name(), one.name);
  auto bars = bars_for(size);
  print_us(name + ".p50", ours.at(0.5), bars.p50);
  print_us(name + ".p99", ours.at(0.99), bars.p99);
  print({.bench = "foghorn." + name + ".beside_naive",
         .value = ours.at(0.5),
         .unit = "us",
         .peer = "naive",
         .peer_value = naive.at(0.5)});
}

void measure_allocations(Workload& workload) {
  auto before = allocations;
  double decisions = 0;
  for (int i = 0; i < 1000; ++i)
    for (const auto& one : cases) {
      found += choose(*workload.table, one.ask(workload)).count;
      ++decisions;
    }
  auto each = static_cast<double>(allocations - before) / decisions;
  print({.bench = "foghorn.decision.allocations",
         .value = each,
         .unit = "allocations",
         .bar = 0,
         .better = Better::lower});
}

// With no measurement in between.
void measure_rate(Workload& workload, Size size, const Case& one) {
  std::vector<double> rates;
  constexpr int count = 50'000;
  for (int round = 0; round < rounds; ++round) {
    auto start = Clock::now();
    for (int i = 0; i < count; ++i) found += choose(*workload.table, one.ask(workload)).count;
    rates.push_back(count / seconds_since(start));
  }
  print({.bench = fmt::format("foghorn.decision.{}.{}.rate", size.name(), one.name),
         .value = median(rates),
         .unit = "1/s",
         .bar = 100'000});
}

// Nine decisions, then a report, and so on. Only the decisions are measured.
void measure_beside_reports(Workload& workload, Size size, const Case& one) {
  Times alone, beside, reports;
  for (int round = 0; round < rounds; ++round) {
    decide(workload, one, 9'000, alone);
    for (int i = 0; i < 1'000; ++i) {
      auto start = Clock::now();
      workload.report();
      reports.us.push_back(1e6 * seconds_since(start));
      decide(workload, one, 9, beside);
    }
  }
  auto name = fmt::format("beside_reports.{}.{}", size.name(), one.name);
  print({.bench = "foghorn." + name + ".p50",
         .value = beside.at(0.5),
         .unit = "us",
         .peer = "without reports",
         .peer_value = alone.at(0.5),
         .bar = 1.5,
         .better = Better::lower});
  print_us(name + ".p99", beside.at(0.99));
  print_us(name + ".report_50_p50", reports.at(0.5));
}

void measure_publish(Workload& workload, Size size) {
  Times times;
  for (std::size_t i = 0; i < 20'000; ++i) {
    auto start = Clock::now();
    workload.change_one(static_cast<int>(7 * i % static_cast<std::size_t>(size.nodes)), i);
    workload.table = workload.builder.publish();
    times.us.push_back(1e6 * seconds_since(start));
  }
  print_us(fmt::format("publish_one_holding.{}.p50", size.name()), times.at(0.5), 10);
  print_us(fmt::format("publish_one_holding.{}.p99", size.name()), times.at(0.99));
}

// The same nodes with few streams and with many. Cold streams have no bar: if there are many, each
// is fetched from memory, which takes longer than the decision.
void measure_independence() {
  Workload few({1000, 1000}), many({1000, 20'000});
  for (const auto& one : cases) {
    Times with_few, with_many;
    for (int round = 0; round < rounds; ++round) {
      decide(few, one, 10'000, with_few);
      decide(many, one, 10'000, with_many);
    }
    print({.bench = fmt::format("foghorn.decision.20000_streams.{}.p50", one.name),
           .value = with_many.at(0.5),
           .unit = "us",
           .peer = "1000 streams",
           .peer_value = with_few.at(0.5),
           .bar = one.is_hot || one.policy == Policy::fair ? std::optional(1.25) : std::nullopt,
           .better = Better::lower});
  }
}

}  // namespace

void warren::bench::bench_balance() {
  for (auto size : {Size{10, 100}, Size{100, 1'000}, Size{500, 5'000}, Size{1'000, 20'000}}) {
    Workload workload(size);
    for (const auto& one : cases) measure_case(workload, size, one);
    if (size.nodes == 100)
      for (const auto& one : cases) measure_rate(workload, size, one);
    if (size.nodes == 1'000) measure_allocations(workload);
    if (size.nodes >= 100) measure_publish(workload, size);
    if (size.nodes == 100 || size.nodes == 1'000)
      for (const auto& one : cases) measure_beside_reports(workload, size, one);
  }
  measure_independence();
  ensure(found > 0, "somebody was found");
}
