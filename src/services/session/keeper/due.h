#pragma once
// What is due for a sandbox: decided from what is written down beside it, so that any replica, also one
// that has just begun, decides the same.
#include <chrono>
#include <string>

#include "services/session/drivers/driver.h"

namespace warren::session {

struct DueTerms {
  std::chrono::milliseconds idle = 20min;  // then it is paused; 0: never
  bool idle_stops = false;                 // stopped instead, with its files
  std::chrono::milliseconds lifetime =
      0ms;  // since it was first made: then it is stopped; 0: never
  std::chrono::milliseconds keep_paused =
      24h * 60;  // since it was last used: then it is stopped; 0: never
};

struct Due {
  enum class What { nothing, pause, stop } what = What::nothing;
  std::string why = {};
  bool is_idle = false;  // because nobody used it; its agent may know better
};

Due due(const Sandbox& sandbox, WallClock::time_point active_at, WallClock::time_point now,
        const DueTerms& terms);

}  // namespace warren::session
