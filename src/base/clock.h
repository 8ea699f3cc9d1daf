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
using Timer = asio::basic_waitable_timer<Clock>;

// 2026-01-31T23:59:59.123Z
std::string iso8601(WallClock::time_point time);

}  // namespace warren
