#pragma once
// The age of a wall-clock timestamp.
#include <algorithm>

#include "base/clock.h"

namespace warren {

// Never negative, although the stamp may come from another clock, or from before a clock was set.
// For display, and for stamps recorded before this process started. Use Clock to measure remaining
// time.
inline Clock::duration age_of(WallClock::time_point stamp) {
  return std::max<Clock::duration>(Clock::duration::zero(), WallClock::now() - stamp);
}

}  // namespace warren
