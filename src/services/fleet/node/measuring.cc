// What a node says of itself and of its repositories, for Prometheus.
#include <algorithm>

#include "services/fleet/node/node.h"
#include "services/fleet/plan/repo_samples.h"

namespace warren::fleet {

namespace {

const std::vector<double> milliseconds_bounds{1,    5,     10,    50,    100,    500,   1000,
                                              5000, 10000, 30000, 60000, 300000, 600000};

std::uint64_t unix_seconds(WallClock::time_point time) {
  using std::chrono::seconds;
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<seconds>(time.time_since_epoch()).count());
}

}  // namespace

Histogram FleetNode::milliseconds_of(const char* name, const char* help) {
  return metrics_.histogram(name, help, milliseconds_bounds);
}

Counter FleetNode::snapshots_that(const char* outcome) {
  return metrics_.counter("warren_fleet_snapshots_total",
                          "Snapshots of repositories on disk, by what became of them.",
                          {{"outcome", outcome}});
}

void FleetNode::measure() {
  collecting_ = metrics_.on_collect(
      [this, used = metrics_.gauge("warren_fleet_memory_bytes", "Bytes of indexes in memory."),
       reserved = metrics_.gauge("warren_fleet_reserved_bytes", "Bytes reserved for builds."),
       budget = metrics_.gauge("warren_fleet_budget_bytes", "Bytes that indexes may take."),
       repos = metrics_.gauge("warren_fleet_owned_rows", "Rows that this node owns."),
       served = metrics_.gauge("warren_fleet_last_served_at",
                               "When this node answered last, in seconds since 1970; 0: never."),
       handed = metrics_.counter("warren_fleet_handed_over_total", "Rows given to another node."),
       taken = metrics_.counter("warren_fleet_taken_over_total", "Rows taken from another node."),
       left = metrics_.counter("warren_fleet_left_total",
                               "Repositories that left, since their origin has them no more."),
       evicted = metrics_.counter("warren_fleet_evictions_total", "Repositories evicted."),
       regretted = metrics_.counter("warren_fleet_regrets_total",
                                    "Queries for what was evicted not long ago.")]() mutable {
        used.set(static_cast<double>(shelf_.used()));
        reserved.set(static_cast<double>(shelf_.reserved()));
        budget.set(static_cast<double>(shelf_.budget()));
        repos.set(static_cast<double>(owned_.size()));
        served.set(static_cast<double>(unix_seconds(served_at_)));
        handed.raise_to(static_cast<double>(drained_.handed_over));
        taken.raise_to(static_cast<double>(drained_.taken_over));
        left.raise_to(static_cast<double>(left_));
        evicted.raise_to(static_cast<double>(shelf_.counters().evicted));
        regretted.raise_to(static_cast<double>(shelf_.counters().regretted));
      });
}

// Of the rows that it has in memory, by memory and then by name.
std::string FleetNode::repo_metrics() const {
  struct Row {
    std::uint64_t bytes;
    const std::string* key;
    const Owned* owned;
    const Held* held;
    auto order() const { return std::pair(~bytes, std::string_view(*key)); }
  };
  std::vector<Row> rows;
  for (const auto& [key, owned] : owned_) {
    auto held = held_.find(owned->repo);
    if (held != held_.end())
      rows.push_back({held->second.memory_bytes(), &key, owned.get(), &held->second});
  }
  std::ranges::sort(rows, {}, &Row::order);
  rows.resize(std::min(rows.size(), settings_.repo_metrics));
  std::vector<RepoSample> index, memory, served, claims;
  for (const auto& row : rows) {
    RepoSample sample{row.owned->repo, parse_row_key(*row.key)->slot, settings_.lease.name};
    sample.value = static_cast<std::uint64_t>(row.held->index_time.count());
    index.push_back(sample);
    sample.value = row.bytes;
    memory.push_back(sample);
    sample.value = static_cast<std::uint64_t>(row.owned->claim_latency.count());
    claims.push_back(sample);
    if (row.owned->served_at == WallClock::time_point{}) continue;
    sample.value = unix_seconds(row.owned->served_at);
    served.push_back(sample);
  }
  return repo_family("index_time_ms", "How long its index took.", index) +
         repo_family("memory_bytes", "Memory that a repository takes.", memory) +
         repo_family("last_served_at",
                     "When a repository was searched last, in seconds since 1970.", served) +
         repo_family("claim_latency_ms", "From when this node saw it on offer to its claim.",
                     claims);
}

}  // namespace warren::fleet
