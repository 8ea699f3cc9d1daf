#include "services/fleet/node/busy.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <thread>

namespace warren::fleet {

namespace {

constexpr double weight = 0.1;  // of the last look

Clock::duration processor_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

}  // namespace

void BusyMeter::look(Clock::time_point now) {
  auto used = processor_time();
  if (last_ != Clock::time_point{} && now > last_) {
    auto processors = std::max(1u, std::thread::hardware_concurrency());
    auto share = std::chrono::duration<double>(used - used_) / (now - last_) / processors;
    share_ += weight * (std::clamp(share, 0.0, 1.0) - share_);
  }
  last_ = now;
  used_ = used;
}

std::uint64_t BusyMeter::percent() const {
  return 5 * static_cast<std::uint64_t>(std::lround(20 * share_));
}

}  // namespace warren::fleet
