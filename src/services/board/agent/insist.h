#pragma once
// Doing something until it succeeds or cannot.
#include "base/log.h"
#include "base/task.h"

namespace warren::agent {

// Calls again, later and later, while it fails with what passes. Other errors are returned, and the
// last one when the caller is cancelled. For calls that may be repeated: the outcome may be unknown.
template <class Call>
auto insist(Call call) -> decltype(call()) {
  for (Clock::duration pause = 100ms;; pause = std::min<Clock::duration>(pause * 2, 5s)) {
    auto result = co_await call();
    if (result || !may_retry(result.error())) co_return result;
    log::debug("agent.waited", "why", result.error().what);
    co_await sleep_for(pause);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return result;
  }
}

}  // namespace warren::agent
