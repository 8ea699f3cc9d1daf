// Preloaded into a redis-server, it makes the server's wall clock step on demand: what the server
// reads as the time of day is the real one plus an offset in microseconds, which somebody else
// writes into the file $WARREN_CLOCK_FOLDER/<pid of the server>. Clocks that only measure are true.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

volatile long long* offset_us = nullptr;

__attribute__((constructor)) void open_offset() {
  const char* folder = getenv("WARREN_CLOCK_FOLDER");
  if (!folder) return;
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", folder, static_cast<int>(getpid()));
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 || ftruncate(file, sizeof *offset_us) != 0) return;
  void* memory = mmap(nullptr, sizeof *offset_us, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) offset_us = static_cast<long long*>(memory);
}

bool is_wall_clock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  // Around the C library, whose function this one replaces.
  if (syscall(SYS_clock_gettime, clock, time) != 0) return -1;
  if (!offset_us || !is_wall_clock(clock)) return 0;
  long long ns = time->tv_sec * 1'000'000'000LL + time->tv_nsec + *offset_us * 1000;
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
