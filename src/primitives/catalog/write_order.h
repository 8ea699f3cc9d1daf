#pragma once
// Numbers the writes of an owner, so that one which arrives late does not undo a newer one.
//
//   owner                     catalog        An epoch tells owners apart, not the writes of one of them.
//     |── write "older" ─ ─ ─┐   |           What was sent over a connection that is given up since may
//     |     (given up)       ┊   |           still arrive, after what was sent over the next one. So the
//     |── write "newer" ─────┊──>| ok        row keeps the number of its last write, and one with a
//     |                      └──>| nothing   lower number changes nothing.
#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace warren {

class WriteOrder {
 public:
  // Greater than all before. By the clock, which all of a process share: so it grows also when another
  // object gave the one before. A life of a node is one process.
  std::int64_t next(Clock::time_point now) {
    auto time = std::chrono::floor<std::chrono::microseconds>(now.time_since_epoch()).count();
    return last_ = std::max<std::int64_t>(last_ + 1, time);
  }

 private:
  std::int64_t last_ = 0;
};

}  // namespace warren
