#include "base/task.h"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <thread>

using namespace warren;

namespace {

// Runs one coroutine to its end, on this thread.
void run(awaitable<void> body) {
  asio::io_context io(1);
  std::exception_ptr thrown;
  asio::co_spawn(io, std::move(body), [&](std::exception_ptr e) { thrown = e; });
  io.run();
  if (thrown) std::rethrow_exception(thrown);
}

Async<int> slow_answer(Clock::duration time) {
  co_await sleep_for(time);
  auto state = co_await asio::this_coro::cancellation_state;
  if (is_cancelled(state)) co_return fail(Errc::cancelled, "the caller left");
  co_return 42;
}

Async<> wait_forever() {
  co_await sleep_until(Clock::time_point::max());
  co_return fail(Errc::cancelled, "left");
}

}  // namespace

TEST_CASE("work that ends before its deadline gives its own result") {
  run([]() -> awaitable<void> {
    auto answer = co_await with_deadline(Clock::now() + 10s, slow_answer(1ms));
    REQUIRE(answer);
    CHECK(*answer == 42);
  }());
}

TEST_CASE("work that is late is cancelled, and the caller learns that time ran out") {
  run([]() -> awaitable<void> {
    auto before = Clock::now();
    auto answer = co_await with_deadline(before + 10ms, slow_answer(1h));
    REQUIRE(!answer);
    CHECK(answer.error().code == Errc::timeout);
    CHECK(Clock::now() - before < 30s);
  }());
}

TEST_CASE("a group cancels all its tasks at once and waits for each of them") {
  run([]() -> awaitable<void> {
    TaskGroup group(co_await asio::this_coro::executor);
    for (int i = 0; i < 100; ++i) group.start("waiter", wait_forever());
    co_await sleep_for(1ms);
    CHECK(group.running() == 100);
    group.stop();
    co_await group.join();
    CHECK(group.running() == 0);
  }());
}

TEST_CASE("one task is cancelled by its number, and one that has ended is nobody's") {
  run([]() -> awaitable<void> {
    TaskGroup group(co_await asio::this_coro::executor);
    auto first = group.start("waiter", wait_forever());
    auto second = group.start("waiter", wait_forever());
    CHECK(first != second);
    co_await sleep_for(1ms);
    group.stop(first);
    while (group.running() > 1) co_await sleep_for(1ms);
    group.stop(first);
    co_await sleep_for(1ms);
    CHECK(group.running() == 1);
    group.stop(second);
    co_await group.join();
  }());
}

TEST_CASE("a task that is started after stop leaves at its first wait") {
  run([]() -> awaitable<void> {
    TaskGroup group(co_await asio::this_coro::executor);
    group.stop();
    group.start("late", wait_forever());
    co_await group.join();
    CHECK(group.running() == 0);
  }());
}

TEST_CASE("a group waits for its tasks even when the one who waits is cancelled") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    TaskGroup group(executor);
    group.start("short", []() -> Async<> {
      co_await sleep_for(20ms);
      co_return ok;
    }());
    using namespace asio::experimental::awaitable_operators;
    co_await (group.join() || sleep_for(1ms));
    CHECK(group.running() == 0);
  }());
}

TEST_CASE("an event wakes everyone who waits for it") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Event event(executor);
    TaskGroup group(executor);
    int woken = 0;
    auto waiter = [](Event& e, int& n) -> Async<> {
      co_await e.wait(Clock::now() + 1h);
      ++n;
      co_return ok;
    };
    for (int i = 0; i < 10; ++i) group.start("waiter", waiter(event, woken));
    co_await sleep_for(1ms);
    event.notify();
    co_await group.join();
    CHECK(woken == 10);
  }());
}

TEST_CASE("work that succeeds in spite of its deadline is not reported as not done") {
  run([]() -> awaitable<void> {
    auto stubborn = []() -> Async<int> {
      co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
      co_await sleep_for(30ms);
      co_return 42;
    };
    auto answer = co_await with_deadline(Clock::now() + 5ms, stubborn());
    REQUIRE(answer);
    CHECK(*answer == 42);
  }());
}

TEST_CASE("an exception of the work reaches who set the deadline, and is not taken for lateness") {
  run([]() -> awaitable<void> {
    auto thrower = []() -> Async<int> {
      co_await sleep_for(1ms);
      throw std::runtime_error("broken");
    };
    bool threw = false;
    try {
      auto answer = co_await with_deadline(Clock::now() + 1h, thrower());
      CHECK(!answer);
    } catch (const std::runtime_error&) {
      threw = true;
    }
    CHECK(threw);
  }());
}

TEST_CASE("a coroutine that was cancelled still waits for the tasks it owns") {
  run([]() -> awaitable<void> {
    bool task_left = false;
    auto task = [](bool& left) -> Async<> {
      co_await sleep_until(Clock::time_point::max());
      left = true;
      co_return fail(Errc::cancelled, "left");
    };
    auto owner = [](bool& left, decltype(task)& run_task) -> Async<> {
      auto body = [](TaskGroup& group, bool& l, decltype(task)& t) -> Async<> {
        group.start("task", t(l));
        co_await sleep_until(Clock::time_point::max());
        co_await sleep_until(Clock::time_point::max());  // throws: the owner was cancelled
        co_return ok;
      };
      co_return co_await with_group(body, left, run_task);
    };
    TaskGroup outer(co_await asio::this_coro::executor);
    outer.start("owner", owner(task_left, task));
    co_await sleep_for(1ms);
    outer.stop();
    co_await outer.join();
    CHECK(task_left);
  }());
}

TEST_CASE("late work that was itself waiting for two things ends as late") {
  run([]() -> awaitable<void> {
    auto leaves_by_exception = []() -> awaitable<void> {
      for (;;) co_await sleep_for(1h);  // the second one throws: it was cancelled
    };
    auto work = [](decltype(leaves_by_exception)& wait) -> Async<> {
      using namespace asio::experimental::awaitable_operators;
      co_await (wait() || wait());
      co_return ok;
    };
    auto result = co_await with_deadline(Clock::now() + 5ms, work(leaves_by_exception));
    REQUIRE(!result);
    CHECK(result.error().code == Errc::timeout);
  }());
}

TEST_CASE("who joined a group can be cancelled afterwards") {
  run([]() -> awaitable<void> {
    auto joins_then_waits = []() -> Async<> {
      TaskGroup inner(co_await asio::this_coro::executor);
      co_await inner.join();
      co_await sleep_for(1h);
      co_return ok;
    };
    TaskGroup outer(co_await asio::this_coro::executor);
    outer.start("joiner", joins_then_waits());
    co_await sleep_for(1ms);
    outer.stop();
    co_await outer.join();
    CHECK(outer.running() == 0);
  }());
}

TEST_CASE("the longest sleep is long") {
  run([]() -> awaitable<void> {
    using namespace asio::experimental::awaitable_operators;
    auto first = co_await (sleep_for(Clock::duration::max()) || sleep_for(5ms));
    CHECK(first.index() == 1);
  }());
}

TEST_CASE("a long computation runs on the pool and its result comes back to the caller's thread") {
  run([]() -> awaitable<void> {
    asio::thread_pool pool(2);
    auto here = std::this_thread::get_id();
    auto id = [](std::thread::id) { return std::this_thread::get_id(); };
    auto there = co_await on_pool(pool, id, here);
    CHECK(there != here);
    CHECK(std::this_thread::get_id() == here);
    pool.join();
  }());
}

// So whatever is reserved for the computation stays reserved until it ends.
TEST_CASE("who is cancelled during a long computation leaves when that has ended") {
  run([]() -> awaitable<void> {
    struct Computation {
      std::promise<void> may_end;
      std::atomic<bool> has_begun = false, has_ended = false;
    } computation;
    auto compute = [](Computation* it) {
      it->has_begun = true;
      it->may_end.get_future().wait();
      return it->has_ended = true;
    };
    asio::thread_pool pool(1);
    TaskGroup tasks(co_await asio::this_coro::executor);
    tasks.start("test.compute",
                [](asio::thread_pool& on, auto what, Computation* it) -> awaitable<void> {
                  co_await on_pool(on, what, it);
                }(pool, compute, &computation));
    while (!computation.has_begun) co_await sleep_for(1ms);
    tasks.stop();
    auto join = [](TaskGroup& group, Computation& it) -> awaitable<bool> {
      co_await group.join();
      co_return it.has_ended.load();
    };
    auto let_end = [](Computation& it) -> awaitable<void> {
      co_await sleep_for(20ms);  // long enough to leave, if it did not wait
      it.may_end.set_value();
    };
    using namespace asio::experimental::awaitable_operators;
    bool has_waited = co_await (join(tasks, computation) && let_end(computation));
    CHECK(has_waited);
    pool.join();
  }());
}
