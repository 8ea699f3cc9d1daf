#include "net/kube/rate.h"

#include <algorithm>

#include "base/error.h"

namespace warren::kube {

TokenBucket::TokenBucket(double per_second, double burst)
    : per_second_(per_second), burst_(burst), tokens_(burst) {
  ensure(per_second > 0 && burst >= 1, "a server is asked at some time");
}

std::optional<Clock::duration> TokenBucket::take(Clock::time_point now,
                                                 Clock::time_point deadline) {
  if (filled_at_ != Clock::time_point{}) {
    auto seconds = std::chrono::duration<double>(now - filled_at_).count();
    tokens_ = std::min(burst_, tokens_ + std::max(0.0, seconds) * per_second_);
  }
  filled_at_ = now;
  auto missing = std::max(0.0, 1 - tokens_);
  auto wait = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(missing / per_second_));
  if (deadline - now < wait) return std::nullopt;
  tokens_ -= 1;
  return wait;
}

}  // namespace warren::kube
