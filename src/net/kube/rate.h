#pragma once
// Limits how often a server is asked: a burst at once, then a fixed rate. Opens no socket.
#include <optional>

#include "base/clock.h"

namespace warren::kube {

class TokenBucket {
 public:
  TokenBucket(double per_second, double burst);

  // Reserves the next turn and returns how long to wait for it. Returns nullopt, and reserves
  // nothing, if the turn would come after the deadline.
  std::optional<Clock::duration> take(Clock::time_point now, Clock::time_point deadline);

 private:
  double per_second_, burst_;
  double tokens_;  // if negative, that many already wait
  Clock::time_point filled_at_ = {};
};

}  // namespace warren::kube
