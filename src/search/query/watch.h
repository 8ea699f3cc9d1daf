#pragma once
// Ends a search in several threads when its time is up.
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace warren::search {

enum class Stop : std::uint8_t { none, time, cancelled };

class Watch {
 public:
  Watch(Clock::time_point deadline, const std::atomic<bool>* cancelled)
      : deadline_(deadline), cancelled_(cancelled) {}

  void stop(Stop why) {
    auto none = Stop::none;
    stop_.compare_exchange_strong(none, why);
  }
  Stop why() const { return stop_.load(std::memory_order_relaxed); }
  // Checks the clock.
  bool is_over() {
    if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) stop(Stop::cancelled);
    if (deadline_ != Clock::time_point::max() && Clock::now() >= deadline_) stop(Stop::time);
    return why() != Stop::none;
  }

 private:
  Clock::time_point deadline_;
  const std::atomic<bool>* cancelled_;
  std::atomic<Stop> stop_ = Stop::none;
};

}  // namespace warren::search
