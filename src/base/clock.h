#pragma once
// Two clocks. `Clock` measures durations and deadlines. It never steps, and it keeps running while
// the machine is suspended, so a laptop that slept past a deadline notices. `WallClock` is for
// display and for timestamps written by other machines.
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

// Asio's kernel timer stops while the machine is suspended. Checking the clock once a second bounds
// how late an expired deadline is noticed after resume.
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
