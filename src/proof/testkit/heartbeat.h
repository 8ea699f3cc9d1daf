#pragma once
// The greatest delay with which a thread of ours was woken: what a busy machine does to every
// process. A test adds it to its time limits, once for each process that has to wake up.
#include <atomic>
#include <thread>

#include "base/clock.h"

namespace warren::inline testkit {

class Heartbeat {
 public:
  Heartbeat();
  Clock::duration worst() const { return Clock::duration(worst_.load()); }

 private:
  std::atomic<Clock::rep> worst_ = 0;
  std::jthread thread_;
};

}  // namespace warren::inline testkit
