#pragma once
// Coroutines with an owner. Every task is awaited: by &&, by ||, or by a TaskGroup.
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <list>
#include <optional>
#include <string>
#include <type_traits>

#include "base/clock.h"
#include "base/error.h"

namespace warren {

using asio::awaitable;

template <class T = void>
using Async = awaitable<Result<T>>;

// Store the state first and test it in the next statement: g++ 12 miscompiles both in one
// expression.
//   auto state = co_await asio::this_coro::cancellation_state;
//   if (is_cancelled(state)) …
inline bool is_cancelled(const asio::cancellation_state& state) {
  return state.cancelled() != asio::cancellation_type::none;
}
// Whether this is the exception that Asio throws into a cancelled coroutine.
bool is_cancellation(std::exception_ptr thrown);

// Both return early, without an error, when the caller is cancelled. Check what you waited for.
awaitable<void> sleep_until(Clock::time_point time);
awaitable<void> sleep_for(Clock::duration duration);

// Wakes any number of waiting coroutines, all on one thread.
class Event {
 public:
  explicit Event(asio::any_io_executor executor) : timer_(executor, Clock::time_point::max()) {}
  // Wakes everything that waits now. Later waiters wait for the next notification.
  void notify() { timer_.cancel(); }
  // Also returns at the deadline or when the caller is cancelled, so check the condition itself.
  awaitable<void> wait(Clock::time_point deadline = Clock::time_point::max());

 private:
  Timer timer_;
};

// A varying number of tasks, and a way to wait until all have ended.
//
//   TaskGroup connections(executor);
//   connections.start("http.connection", serve(std::move(socket)));
//   connections.stop();            // cancels them all
//   co_await connections.join();   // ~TaskGroup ensures that this was done
class TaskGroup {
 public:
  explicit TaskGroup(asio::any_io_executor executor);
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // If the task ends with an error other than `cancelled`, the error is logged under this name.
  // Returns the number of the task, counting from 1.
  std::uint64_t start(std::string name, Async<> task);
  std::uint64_t start(std::string name, awaitable<void> task);
  // Cancels all tasks, including those started later.
  void stop();
  // Cancels one task, if it is still running.
  void stop(std::uint64_t number);
  // Waits until the last task has ended, even if the caller itself is cancelled.
  awaitable<void> join();
  std::size_t running() const { return tasks_.size(); }

 private:
  struct Task {
    std::uint64_t number;
    std::string name;
    asio::cancellation_signal cancel;
  };
  void ended(std::list<Task>::iterator task, std::exception_ptr thrown, const Result<>& result);

  asio::any_io_executor executor_;
  std::list<Task> tasks_;
  std::uint64_t started_ = 0;
  bool stopping_ = false;
  Event empty_;
};

// Runs body(group, args...), then stops the group and waits for its tasks, however the body ended.
// A coroutine that may be cancelled should own its tasks this way: it cannot simply co_await
// join(), because Asio throws at its next co_await.
template <class Body, class... Args>
auto with_group(Body body, Args&... args) -> std::invoke_result_t<Body, TaskGroup&, Args&...> {
  using T = typename std::invoke_result_t<Body, TaskGroup&, Args&...>::value_type;
  TaskGroup group(co_await asio::this_coro::executor);
  std::exception_ptr thrown;
  std::optional<T> result;
  try {
    result.emplace(co_await body(group, args...));
  } catch (...) {
    thrown = std::current_exception();
  }
  bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  group.stop();
  co_await group.join();
  co_await asio::this_coro::throw_if_cancelled(throws);
  if (thrown) std::rethrow_exception(thrown);
  co_return std::move(*result);
}

// Cancels the work at the deadline and waits for it to leave. Returns Errc::timeout then, unless
// the work succeeded all the same.
template <class T>
Async<T> with_deadline(Clock::time_point deadline, Async<T> work) {
  Timer timer(co_await asio::this_coro::executor, deadline);
  auto both = asio::experimental::make_parallel_group(
      asio::co_spawn(timer.get_executor(), std::move(work), asio::deferred),
      timer.async_wait(asio::deferred));
  auto [order, thrown, result, late] =
      co_await both.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  bool was_late = order[0] == 1 && !late;
  if (thrown && !(was_late && is_cancellation(thrown))) std::rethrow_exception(thrown);
  if (was_late && (thrown || (!result && result.error().code == Errc::cancelled)))
    co_return fail(Errc::timeout, "the deadline passed");
  co_return std::move(result);
}

// For work that ends only by cancellation. Waits for it and swallows the exception that Asio throws
// into a cancelled coroutine, so that the caller can clean up.
awaitable<void> until_cancelled(awaitable<void> work);

// Runs a long computation on the pool and returns to the caller's thread with the result. Its
// inputs are moved in, so it shares nothing with the caller while it runs.
template <class Function, class... Args>
awaitable<std::invoke_result_t<Function, Args...>> on_pool(asio::thread_pool& pool,
                                                           Function function, Args... args) {
  using T = std::invoke_result_t<Function, Args...>;
  auto body = [](Function f, Args... a) -> awaitable<T> { co_return f(std::move(a)...); };
  auto work = body(std::move(function), std::move(args)...);
  co_return co_await asio::co_spawn(pool.get_executor(), std::move(work), asio::use_awaitable);
}

}  // namespace warren
