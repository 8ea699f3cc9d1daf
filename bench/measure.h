#pragma once
// What the benchmarks measure with.
#include <sched.h>

#include <thread>

#include "base/clock.h"

namespace warren::bench {

// Keeps a process on one core, so that client and server do not take turns on the same one. Process
// 0 is the caller. On a machine with one core it does nothing.
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
