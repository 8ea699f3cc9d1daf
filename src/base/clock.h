#pragma once
// Two clocks. `Clock` measures durations and deadlines: it never steps and goes on while the
// machine is suspended, so that a laptop that slept past a deadline knows it. `WallClock` is for
// people and for what other machines wrote down.
#include <boost/asio/basic_waitable_timer.hpp>
#include <chrono>
#include <string>

namespace warren {

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept;
};

using WallClock = std::chrono::system_clock;

// The kernel timer behind Asio stands still while the machine is suspended. A look at the clock
// once a second bounds how late a deadline is noticed after it wakes.
struct TimerTraits {
  static Clock::duration to_wait_duration(const Clock::duration& rest) {
    return rest < 1s ? rest : 1s;
  }
  static Clock::duration to_wait_duration(const Clock::time_point& time) {
    auto now = Clock::now();
    return time - now < 1s ? time - now : 1s;
  }
};
using Timer = asio::basic_waitable_timer<Clock, TimerTraits>;

// 2026-01-31T23:59:59.123Z
std::string iso8601(WallClock::time_point time);

}  // namespace warren
