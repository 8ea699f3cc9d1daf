// Preloaded into a process, this makes its wall clock lie on demand. The time of day that the
// process reads is the true one, changed by what the file $WARREN_CLOCK_FOLDER/<pid of the process>
// says, which another process writes. Clocks that only measure durations stay true.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "proof/torture/clock_setting.h"

namespace {

const volatile ClockSetting* setting = nullptr;

__attribute__((constructor)) void open_setting() {
  const char* folder = getenv("WARREN_CLOCK_FOLDER");
  if (!folder) return;
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", folder, static_cast<int>(getpid()));
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 || ftruncate(file, sizeof *setting) != 0) return;
  void* memory = mmap(nullptr, sizeof *setting, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) setting = static_cast<ClockSetting*>(memory);
}

long long lie_us(long long now_us) {
  auto since = now_us - setting->since_us;
  return setting->offset_us + since * setting->drift_ppm / 1'000'000;
}

bool is_wall_clock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  // Bypasses the C library, whose function this one replaces.
  if (syscall(SYS_clock_gettime, clock, time) != 0) return -1;
  if (!setting || !is_wall_clock(clock)) return 0;
  long long ns = time->tv_sec * 1'000'000'000LL + time->tv_nsec;
  ns += lie_us(ns / 1000) * 1000;
  time->tv_sec = ns / 1'000'000'000;
  time->tv_nsec = ns % 1'000'000'000;
  return 0;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now;
  int result = clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return result;
}

time_t time(time_t* result) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}
}
