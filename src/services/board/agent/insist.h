#pragma once
// Doing something until it succeeds or cannot.
#include "base/log.h"
#include "base/task.h"

namespace warren::agent {

// It may be otherwise in a moment. Calls that may be repeated only: the outcome may be unknown.
inline bool is_weather(Errc code) {
  return code == Errc::unavailable || code == Errc::timeout || code == Errc::overloaded ||
         code == Errc::unknown_outcome;
}

// Calls again, later and later, while Redis cannot be asked. Other errors are returned, and the
// last one when the caller is cancelled.
template <class Call>
auto insist(Call call) -> decltype(call()) {
  for (Clock::duration pause = 100ms;; pause = std::min<Clock::duration>(pause * 2, 5s)) {
    auto result = co_await call();
    if (result || !is_weather(result.error().code)) co_return result;
    log::debug("agent.waited", "why", result.error().what);
    co_await sleep_for(pause);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return result;
  }
}

}  // namespace warren::agent
