#pragma once
// How long to wait before the next attempt: longer each time, and short again after a time without
// failures.
#include "base/clock.h"

namespace warren::kube {

struct BackoffTerms {
  std::chrono::milliseconds least = 800ms, most = 30s;
  std::chrono::milliseconds healthy_after = 2min;  // without a failure
};

class Backoff {
 public:
  explicit Backoff(BackoffTerms terms = {}) : terms_(terms) {}

  // `chance` is between 0 and 1 and spreads retries, so that clients that failed together do not
  // retry together. It at most doubles the pause.
  Clock::duration on_failure(Clock::time_point now, double chance);

 private:
  BackoffTerms terms_;
  Clock::duration last_{};
  Clock::time_point failed_at_ = {};
};

}  // namespace warren::kube
