#pragma once
// How busy this process keeps the processors that it may use: for those who decide how many nodes
// there should be.
#include <cstdint>

#include "base/clock.h"

namespace warren::fleet {

class BusyMeter {
 public:
  // Once a second or so.
  void look(Clock::time_point now);
  // Over some ten seconds, in steps of 5, so that what an idle node says of itself does not change.
  std::uint64_t percent() const;

 private:
  Clock::time_point last_{};
  Clock::duration used_{};  // processor time until then
  double share_ = 0;
};

}  // namespace warren::fleet
