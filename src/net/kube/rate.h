#pragma once
// How often a server is asked: so many at once, then so many in a second. Opens no socket.
#include <optional>

#include "base/clock.h"

namespace warren::kube {

class TokenBucket {
 public:
  TokenBucket(double per_second, double burst);

  // Reserves the next turn: how long to wait for it. None: it would come after the deadline, and
  // nothing is reserved.
  std::optional<Clock::duration> take(Clock::time_point now, Clock::time_point deadline);

 private:
  double per_second_, burst_;
  double tokens_;  // below zero: that many wait already
  Clock::time_point filled_at_ = {};
};

}  // namespace warren::kube
