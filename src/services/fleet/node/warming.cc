#include "services/fleet/node/warming.h"

#include <algorithm>

namespace warren::fleet {

namespace {

// Before that, the first few files say little about the others.
constexpr double least_part = 0.02;

}  // namespace

std::optional<double> Warming::progress() const {
  auto part = part_.load(std::memory_order_relaxed);
  if (part <= 0) return std::nullopt;
  return std::min(part, 1.0);
}

std::optional<std::chrono::milliseconds> Warming::eta(Clock::time_point now) const {
  using std::chrono::milliseconds;
  auto spent = std::chrono::duration_cast<milliseconds>(now - since_);
  if (phase_ == Phase::waiting && fetch_time_ > 0ms) return fetch_time_ + read_time_;
  if (phase_ == Phase::fetching && fetch_time_ > 0ms)
    return std::max(fetch_time_ - spent, 0ms) + read_time_;
  if (phase_ != Phase::reading) return std::nullopt;
  auto part = progress().value_or(0);
  if (part >= least_part)
    return milliseconds(
        static_cast<std::int64_t>(static_cast<double>(spent.count()) * (1 - part) / part));
  if (read_time_ > 0ms) return std::max(read_time_ - spent, 0ms);
  return std::nullopt;
}

}  // namespace warren::fleet
