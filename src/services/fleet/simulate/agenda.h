#pragma once
// Virtual time: what is to happen, in order; of two things at the same time the older one first.
#include <algorithm>
#include <functional>
#include <vector>

#include "base/clock.h"

namespace warren::fleet_sim {

using Time = Clock::time_point;
using Act = std::function<void()>;

inline Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}
inline double in_seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

class Agenda {
 public:
  Time now() const { return now_; }
  void at(Time time, Act act) {
    entries_.push_back({std::max(time, now_), ++order_, std::move(act)});
    std::ranges::push_heap(entries_, later);
  }
  void after(Clock::duration wait, Act act) { at(now_ + wait, std::move(act)); }

  // Until then, or until nothing is left to do.
  void run(Time until) {
    while (!entries_.empty() && entries_.front().time <= until) {
      std::ranges::pop_heap(entries_, later);
      auto entry = std::move(entries_.back());
      entries_.pop_back();
      now_ = entry.time;
      entry.act();
    }
    now_ = until;
  }

 private:
  struct Entry {
    Time time;
    std::uint64_t order;
    Act act;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }

  Time now_{};
  std::uint64_t order_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace warren::fleet_sim
