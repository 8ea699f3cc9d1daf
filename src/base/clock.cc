#include "base/clock.h"

#include <fmt/chrono.h>
#include <time.h>

namespace warren {

Clock::time_point Clock::now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

std::string iso8601(WallClock::time_point time) {
  auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(time - seconds).count();
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(WallClock::to_time_t(seconds)), millis);
}

}  // namespace warren
