#pragma once
// How far a repository is on its way into memory, for whoever waits for it.
#include <atomic>
#include <chrono>
#include <optional>

#include "base/clock.h"
#include "services/fleet/plan/records.h"

namespace warren::fleet {

class Warming {
 public:
  // From the last time that it was brought here or elsewhere; 0: nobody knows.
  Warming(std::chrono::milliseconds fetch_time, std::chrono::milliseconds read_time)
      : fetch_time_(fetch_time), read_time_(read_time) {}

  void enter(Phase phase, Clock::time_point now) {
    phase_ = phase;
    since_ = now;
    part_ = 0;
  }
  // Of this phase, 0 to 1. Any thread.
  void on_part(double part) { part_.store(part, std::memory_order_relaxed); }

  Phase phase() const { return phase_; }
  // None: not known.
  std::optional<double> progress() const;
  // Until it answers, by scanning at least.
  std::optional<std::chrono::milliseconds> eta(Clock::time_point now) const;

 private:
  std::chrono::milliseconds fetch_time_, read_time_;
  Phase phase_ = Phase::waiting;
  Clock::time_point since_ = {};
  std::atomic<double> part_ = 0;
};

}  // namespace warren::fleet
