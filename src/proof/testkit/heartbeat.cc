#include "proof/testkit/heartbeat.h"

#include <algorithm>

namespace warren::inline testkit {

Heartbeat::Heartbeat()
    : thread_([this](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          auto due = Clock::now() + 5ms;
          std::this_thread::sleep_until(due);
          worst_ = std::max(worst_.load(), (Clock::now() - due).count());
        }
      }) {}

}  // namespace warren::inline testkit
