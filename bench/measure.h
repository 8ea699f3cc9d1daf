#pragma once
// Helpers for measuring.
#include <sched.h>

#include <thread>

#include "base/clock.h"

namespace warren::bench {

// Pins a process to one core, so that client and server do not compete for one. Process 0 is the
// caller. Does nothing on a machine with one core.
inline void pin(pid_t process, int core) {
  if (std::thread::hardware_concurrency() < 2) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(process, sizeof(cores), &cores);
}

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace warren::bench
