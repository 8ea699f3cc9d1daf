#pragma once
// Numbers for Prometheus. `main` owns one Metrics and passes it down.
//
//   auto renewals = metrics.counter("warren_lease_renewals_total", "Renewals by outcome.",
//                                   {{"outcome", "lost"}});
//   renewals.add();
//
// Handles are small and cheap to copy. They are valid as long as the Metrics they came from, and
// any thread may use them. A path too hot for an atomic counts in a plain integer and copies it
// when the metrics are collected:
//
//   collecting_ = metrics.on_collect([this, sent = metrics.counter(…)]() mutable {
//     sent.raise_to(commands_sent_);
//   });
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace warren {

class Counter {
 public:
  void add(double amount = 1);  // not negative
  // Copies a running total that is kept elsewhere. A smaller total changes nothing.
  void raise_to(double total);
  double value() const;

 private:
  friend class Metrics;
  explicit Counter(prometheus::Counter& counter) : counter_(&counter) {}
  prometheus::Counter* counter_;
};

class Gauge {
 public:
  void set(double value);
  void add(double amount);  // may be negative
  double value() const;

 private:
  friend class Metrics;
  explicit Gauge(prometheus::Gauge& gauge) : gauge_(&gauge) {}
  prometheus::Gauge* gauge_;
};

class Histogram {
 public:
  void observe(double value);
  // Adds observations that were counted elsewhere: one count per bucket, one for values above the
  // last bound, and the sum of the values.
  void add(std::span<const std::uint64_t> counts, double sum);

 private:
  friend class Metrics;
  Histogram(prometheus::Histogram& histogram, std::size_t buckets)
      : histogram_(&histogram), buckets_(buckets) {}
  prometheus::Histogram* histogram_;
  std::size_t buckets_;
};

class Metrics {
 public:
  using Labels = std::map<std::string, std::string>;

  Metrics();
  ~Metrics();

  // The same name and labels return the same metric. A name must be valid in Prometheus and have
  // one type, and a histogram must have one list of ascending bounds; anything else aborts. We do
  // not check that counters end in _total: some documented names do not, so reviewers judge that.
  Counter counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram histogram(const std::string& name, const std::string& help,
                      const std::vector<double>& bounds, const Labels& labels = {});

  // Runs before each exposition, on the exposing thread, for as long as the caller keeps the
  // returned pointer. The caller is the only owner; Metrics keeps a weak reference.
  [[nodiscard]] std::shared_ptr<void> on_collect(std::function<void()> collect);

  // Content-Type: text/plain; version=0.0.4
  std::string exposition();

 private:
  struct Registry;
  std::unique_ptr<Registry> registry_;
  std::vector<std::weak_ptr<std::function<void()>>> collect_;
};

}  // namespace warren
