#include "base/task.h"

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/multiple_exceptions.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/system/system_error.hpp>

#include "base/log.h"

namespace warren {

namespace {

// Waits for the timer. The only possible error is cancellation, so it is ignored.
awaitable<void> wait_quietly(Timer& timer) {
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

std::string text_of(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "not a std::exception";
  }
}

Async<> without_result(awaitable<void> task) {
  co_await std::move(task);
  co_return ok;
}

}  // namespace

bool is_cancellation(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const boost::system::system_error& error) {
    return error.code() == asio::error::operation_aborted;
  } catch (const asio::multiple_exceptions& both) {  // from && and ||
    return is_cancellation(both.first_exception());
  } catch (...) {
    return false;
  }
}

awaitable<void> sleep_until(Clock::time_point time) {
  Timer timer(co_await asio::this_coro::executor, time);
  co_await wait_quietly(timer);
}

awaitable<void> sleep_for(Clock::duration duration) {
  auto now = Clock::now();
  auto longest = Clock::time_point::max() - now;
  return sleep_until(duration < longest ? now + duration : Clock::time_point::max());
}

awaitable<void> until_cancelled(awaitable<void> work) {
  std::exception_ptr thrown;
  try {
    co_await std::move(work);
  } catch (...) {
    thrown = std::current_exception();
  }
  auto state = co_await asio::this_coro::cancellation_state;
  if (thrown && !is_cancelled(state)) std::rethrow_exception(thrown);
}

awaitable<void> Event::wait(Clock::time_point deadline) {
  if (deadline == Clock::time_point::max()) {
    co_await wait_quietly(timer_);
    co_return;
  }
  using namespace asio::experimental::awaitable_operators;
  co_await (wait_quietly(timer_) || sleep_until(deadline));
}

TaskGroup::TaskGroup(asio::any_io_executor executor) : executor_(executor), empty_(executor) {}

TaskGroup::~TaskGroup() { ensure(tasks_.empty(), "a TaskGroup is joined before it goes"); }

std::uint64_t TaskGroup::start(std::string name, awaitable<void> task) {
  return start(std::move(name), without_result(std::move(task)));
}

std::uint64_t TaskGroup::start(std::string name, Async<> task) {
  auto entry = tasks_.emplace(tasks_.end());
  auto number = entry->number = ++started_;
  entry->name = std::move(name);
  auto on_end = [this, entry](std::exception_ptr thrown, Result<> result) {
    ended(entry, thrown, result);
  };
  asio::co_spawn(executor_, std::move(task),
                 asio::bind_cancellation_slot(entry->cancel.slot(), on_end));
  if (stopping_) entry->cancel.emit(asio::cancellation_type::terminal);
  return number;
}

void TaskGroup::ended(std::list<Task>::iterator task, std::exception_ptr thrown,
                      const Result<>& result) {
  if (thrown && !is_cancellation(thrown)) {
    log::error("task.threw", "task", task->name, "what", text_of(thrown));
    broken_invariant(__FILE__, __LINE__, "tasks do not throw");
  }
  if (!thrown && !result && result.error().code != Errc::cancelled)
    log::warn("task.failed", "task", task->name, "code", name(result.error().code), "what",
              result.error().what);
  tasks_.erase(task);
  if (tasks_.empty()) empty_.notify();
}

void TaskGroup::stop() {
  stopping_ = true;
  // Cancelling a task may end it and so remove it from the list.
  for (auto task = tasks_.begin(); task != tasks_.end();) {
    auto current = task++;
    current->cancel.emit(asio::cancellation_type::terminal);
  }
}

void TaskGroup::stop(std::uint64_t number) {
  auto task = std::ranges::find(tasks_, number, &Task::number);
  if (task != tasks_.end()) task->cancel.emit(asio::cancellation_type::terminal);
}

awaitable<void> TaskGroup::join() {
  bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!tasks_.empty()) co_await empty_.wait();
  co_await asio::this_coro::throw_if_cancelled(throws);
}

}  // namespace warren
