#pragma once
// How old a stamp is.
#include <algorithm>

#include "base/clock.h"

namespace warren {

// By clocks that may differ and be set: never negative. For people, and for what was written down
// before this process began. What time is left is measured by Clock.
inline Clock::duration age_of(WallClock::time_point stamp) {
  return std::max<Clock::duration>(Clock::duration::zero(), WallClock::now() - stamp);
}

}  // namespace warren
