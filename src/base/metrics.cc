#include "base/metrics.h"

#include <prometheus/check_names.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <stdexcept>

#include "base/error.h"

namespace warren {

void Counter::add(double amount) {
  ensure(amount >= 0, "a counter only grows");
  counter_->Increment(amount);
}

void Counter::raise_to(double total) {
  if (auto more = total - counter_->Value(); more > 0) counter_->Increment(more);
}

double Counter::value() const { return counter_->Value(); }

void Gauge::set(double value) { gauge_->Set(value); }
void Gauge::add(double amount) { gauge_->Increment(amount); }
double Gauge::value() const { return gauge_->Value(); }

void Histogram::observe(double value) { histogram_->Observe(value); }

void Histogram::add(std::span<const std::uint64_t> counts, double sum) {
  ensure(counts.size() == buckets_, "one count for each bucket");
  histogram_->ObserveMultiple({counts.begin(), counts.end()}, sum);
}

struct Metrics::Registry {
  prometheus::Registry registry;
  std::map<std::string, std::vector<double>> bounds;  // of each histogram

  // The library validates with assert, which its release build omits. So we check here.
  template <class Builder>
  auto& family(Builder builder, const std::string& name, const std::string& help,
               const Labels& labels) {
    ensure(prometheus::CheckMetricName(name), fmt::format("{} is the name of a metric", name));
    for (auto& [label, value] : labels)
      ensure(prometheus::CheckLabelName(label) && label != "le" && label != "quantile",
             fmt::format("{} is the name of a label", label));
    try {
      return builder.Name(name).Help(help).Register(registry);
    } catch (const std::invalid_argument& error) {
      broken_invariant(__FILE__, __LINE__, fmt::format("metric {}: {}", name, error.what()));
    }
  }
};

Metrics::Metrics() : registry_(std::make_unique<Registry>()) {}
Metrics::~Metrics() = default;

Counter Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
  return Counter(registry_->family(prometheus::BuildCounter(), name, help, labels).Add(labels));
}

Gauge Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  return Gauge(registry_->family(prometheus::BuildGauge(), name, help, labels).Add(labels));
}

Histogram Metrics::histogram(const std::string& name, const std::string& help,
                             const std::vector<double>& bounds, const Labels& labels) {
  ensure(!bounds.empty() && std::ranges::is_sorted(bounds, std::less_equal()),
         "bounds are ascending");
  ensure(registry_->bounds.emplace(name, bounds).first->second == bounds,
         "a histogram has one list of bounds");
  auto& family = registry_->family(prometheus::BuildHistogram(), name, help, labels);
  return {family.Add(labels, bounds), bounds.size() + 1};
}

std::shared_ptr<void> Metrics::on_collect(std::function<void()> collect) {
  auto kept = std::make_shared<std::function<void()>>(std::move(collect));
  collect_.push_back(kept);
  return kept;
}

std::string Metrics::exposition() {
  std::erase_if(collect_, [](auto& collect) { return collect.expired(); });
  // By index: a callback may register more callbacks.
  for (std::size_t i = 0; i < collect_.size(); ++i)
    if (auto collect = collect_[i].lock()) (*collect)();
  return prometheus::TextSerializer().Serialize(registry_->registry.Collect());
}

}  // namespace warren
