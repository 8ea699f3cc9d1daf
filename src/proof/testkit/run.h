#pragma once
// Runs a test that is a coroutine, and waits for facts instead of for a time.
//
//   run([](RedisServer& server) -> awaitable<void> {
//     …
//     co_await eventually(30s, "the link is closed", [&] { return link.counters().open == 0; });
//   }(server));
//
// A fact is a function that returns a bool, or a Result whose error says what was seen instead; for
// `eventually` it may also be a coroutine that returns one. Its parameters may follow as arguments,
// so that a coroutine lambda need not capture:
//
//   co_await eventually(30s, "bob has the lease", has_lease, client, bob);
#include <thread>

#include "base/clock.h"
#include "base/task.h"
#include "proof/testkit/failure.h"

namespace warren::inline testkit {

// Runs the coroutine on this thread, with everything it starts, until all of that has ended.
// Rethrows what the coroutine threw: a failed REQUIRE passes through. What has not ended at the
// limit is reported as hanging and cancelled; if it does not leave even then, the program aborts.
void run(awaitable<void> body, Clock::duration limit = 60s);

namespace detail {

constexpr auto poll_interval = 2ms;

inline bool holds(const bool& seen) { return seen; }
template <class T>
bool holds(const Result<T>& seen) {
  return seen.has_value();
}

inline std::string shown(const bool&) { return "it is not so"; }
template <class T>
std::string shown(const Result<T>& seen) {
  return seen.error().what;
}

inline void result_of(bool) {}
template <class T>
T result_of(Result<T> seen) {
  if constexpr (!std::is_void_v<T>) return *std::move(seen);
}

[[noreturn]] void fail_waiting(Clock::duration limit, const std::string& what,
                               const std::string& seen);

template <class T>
struct Awaited {
  using type = T;
};
template <class T>
struct Awaited<awaitable<T>> {
  using type = T;
};

}  // namespace detail

// Blocks this thread until the fact holds and returns the value of its Result. At the limit it
// fails the test with what was last seen. Not for coroutines: nothing else runs meanwhile.
template <class Fact>
auto wait_for(Clock::duration limit, const std::string& what, Fact fact) {
  auto deadline = Clock::now() + limit;
  for (;;) {
    auto seen = fact();
    if (detail::holds(seen)) return detail::result_of(std::move(seen));
    if (Clock::now() > deadline) detail::fail_waiting(limit, what, detail::shown(seen));
    std::this_thread::sleep_for(detail::poll_interval);
  }
}

// The same for coroutines. The arguments belong to the caller and must live while it waits.
template <class Fact, class... Args>
auto eventually(Clock::duration limit, std::string what, Fact fact, Args&... args)
    -> awaitable<decltype(detail::result_of(
        std::declval<typename detail::Awaited<std::invoke_result_t<Fact, Args&...>>::type>()))> {
  using Returned = std::invoke_result_t<Fact, Args&...>;
  using Seen = typename detail::Awaited<Returned>::type;
  auto deadline = Clock::now() + limit;
  for (;;) {
    std::optional<Seen> seen;
    if constexpr (std::is_same_v<Returned, Seen>)
      seen.emplace(fact(args...));
    else
      seen.emplace(co_await fact(args...));
    if (detail::holds(*seen)) co_return detail::result_of(*std::move(seen));
    if (Clock::now() > deadline) detail::fail_waiting(limit, what, detail::shown(*seen));
    co_await sleep_for(detail::poll_interval);
  }
}

}  // namespace warren::inline testkit
