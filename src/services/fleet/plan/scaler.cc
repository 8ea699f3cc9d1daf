#include "services/fleet/plan/scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace warren::fleet {

namespace {

std::size_t nodes_for(double amount, double of_one) {
  if (amount <= 0) return 0;
  if (of_one <= 0) return 1;
  return static_cast<std::size_t>(std::ceil(std::min(amount / of_one, 1e6)));
}

double megabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

Scale Scaler::needed(const FleetLoad& load) const {
  auto count = static_cast<double>(std::max<std::size_t>(load.nodes, 1));
  auto budget = static_cast<double>(load.budget_bytes) / count;
  Scale memory{nodes_for(static_cast<double>(load.wanted_bytes), terms_.fill * budget),
               fmt::format("repositories take {:.0f} MB, and a node may hold {:.0f}",
                           megabytes(load.wanted_bytes), terms_.fill * budget / (1 << 20))};
  Scale busy{nodes_for(static_cast<double>(load.nodes) * load.busy, terms_.busy),
             fmt::format("processors are busy for {:.0f} % of the time", 100 * load.busy)};
  Scale queue{nodes_for(load.queue_seconds, std::chrono::duration<double>(terms_.queue).count()),
              fmt::format("{:.0f} s of fetching and building wait", load.queue_seconds)};
  Scale room{load.roomless > 0 ? load.nodes + 1 : 0,
             fmt::format("{} rows find no node with room", load.roomless)};
  auto need =
      std::ranges::max(std::initializer_list<Scale>{memory, busy, queue, room}, {}, &Scale::nodes);
  need.nodes = std::clamp(need.nodes, terms_.least, terms_.most);
  return need;
}

bool Scaler::covers(Clock::time_point now, std::chrono::milliseconds time) const {
  return !looks_.empty() && looks_.front().at <= now - time;
}

Scale Scaler::decide(Clock::time_point now, const Scale& need) const {
  auto nodes = stepping_from_ > 0 ? target_ : std::max(target_, load_.nodes);
  if (nodes < terms_.least)
    return {std::max(terms_.least, std::min(need.nodes, terms_.most)),
            fmt::format("{} nodes are the fewest allowed", terms_.least)};
  if (nodes > terms_.most)
    return {terms_.most, fmt::format("{} nodes are the most allowed", terms_.most)};
  auto least = need.nodes, most = need.nodes;
  for (const auto& look : looks_) {
    if (look.at >= now - terms_.up_after) least = std::min(least, look.nodes);
    most = std::max(most, look.nodes);
  }
  if (least > nodes && covers(now, terms_.up_after)) return {least, need.reason};
  double budget = load_.nodes > 0
                      ? static_cast<double>(load_.budget_bytes) / static_cast<double>(load_.nodes)
                      : 0;
  bool fits = static_cast<double>(load_.wanted_bytes) <=
              terms_.fill_with_one_less * budget * static_cast<double>(nodes - 1);
  if (most < nodes && covers(now, terms_.down_after) && stepping_from_ == 0 && fits)
    return {nodes - 1, fmt::format("{} were enough for {} s", most,
                                   terms_.down_after / std::chrono::seconds(1))};
  if (load_.nodes < nodes && wanted_.nodes == nodes) return wanted_;  // they are on their way
  if (need.nodes > nodes) return {nodes, fmt::format("{}, but not for long enough", need.reason)};
  return {nodes, "as many as are needed"};
}

void Scaler::start_anew(Clock::time_point now) {
  looks_.clear();
  counts_from_ = now + terms_.settle;
}

void Scaler::on_load(Clock::time_point now, const FleetLoad& load) {
  bool is_first = counts_from_ == Clock::time_point{};
  if (is_first) counts_from_ = now;
  if (!is_first && load.nodes != load_.nodes) start_anew(now);
  load_ = load;
  // It is done, or somebody wants more.
  if (load.nodes <= target_ || load.nodes > stepping_from_) stepping_from_ = 0;
  while (looks_.size() > 1 && looks_[1].at <= now - terms_.down_after) looks_.pop_front();
  auto need = needed(load);
  auto before = std::exchange(wanted_, decide(now, need)).nodes;
  if (wanted_.nodes > std::max(target_, load.nodes)) target_ = wanted_.nodes;
  if (wanted_.nodes < std::max(target_, load.nodes)) {
    target_ = wanted_.nodes;
    if (load.nodes > target_ && stepping_from_ == 0) stepping_from_ = load.nodes;
  }
  if (stepping_from_ == 0 && covers(now, terms_.up_after)) target_ = std::max(target_, load.nodes);
  if (wanted_.nodes != before && !is_first) start_anew(now);
  if (now >= counts_from_) looks_.push_back({now, need.nodes});
}

}  // namespace warren::fleet
