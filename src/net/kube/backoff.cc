#include "net/kube/backoff.h"

#include <algorithm>

namespace warren::kube {

Clock::duration Backoff::on_failure(Clock::time_point now, double chance) {
  bool was_healthy = now - failed_at_ > last_ * 2 + terms_.healthy_after;
  failed_at_ = now;
  last_ = was_healthy || last_ == Clock::duration{}
              ? Clock::duration(terms_.least)
              : std::min<Clock::duration>(2 * last_, terms_.most);
  return last_ + std::chrono::duration_cast<Clock::duration>(last_ * chance);
}

}  // namespace warren::kube
