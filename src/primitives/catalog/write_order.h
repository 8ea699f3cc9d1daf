#pragma once
// Numbers the writes of an owner, so that a late one does not undo a newer one.
//
//   owner                     catalog       An epoch tells owners apart, not the writes of one of
//     |── write "older" ─ ─ ─┐   |           them. What was sent over an abandoned connection may
//     |     (given up)       ┊   |           still arrive, after what was sent over the next one.
//     |── write "newer" ─────┊──>| ok        So the row keeps the number of its last write, and a
//     |                      └──>| nothing   write with a lower number changes nothing.
#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace warren {

class WriteOrder {
 public:
  // Returns a number greater than all before. It follows the clock, which all objects of a process
  // share, so it also grows if another object gave the previous one. A life of a node is one
  // process.
  std::int64_t next(Clock::time_point now) {
    auto time = std::chrono::floor<std::chrono::microseconds>(now.time_since_epoch()).count();
    return last_ = std::max<std::int64_t>(last_ + 1, time);
  }

 private:
  std::int64_t last_ = 0;
};

}  // namespace warren
