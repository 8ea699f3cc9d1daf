#include "proof/testkit/run.h"

#include "proof/testkit/victim.h"

using namespace warren;

namespace {

Async<int> third_time(int& calls) {
  co_await sleep_for(1ms);
  if (++calls < 3) co_return fail(Errc::not_found, "call {}", calls);
  co_return 42;
}

awaitable<void> wait_for_ever() { co_await sleep_until(Clock::time_point::max()); }

}  // namespace

TEST_CASE("run returns when the coroutine has ended") {
  bool ended = false;
  run([](bool& flag) -> awaitable<void> {
    co_await sleep_for(1ms);
    flag = true;
  }(ended));
  CHECK(ended);
}

TEST_CASE("run waits for what the coroutine started, too") {
  bool ended = false;
  run([](bool& flag) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    asio::co_spawn(executor, sleep_for(10ms), [&](std::exception_ptr) { flag = true; });
  }(ended));
  CHECK(ended);
}

TEST_CASE("a failed REQUIRE in a coroutine ends the test like any other") {
  Victim victim("victim: REQUIREs in a coroutine");
  CHECK(victim.process.wait(30s) != 0);
  CHECK(victim.said("REQUIRE( 1 == 2 )"));
  CHECK(!victim.said("unknown exception"));
  CHECK(!victim.said("never reached"));
  CHECK(victim.said("assertions: 1 | 0 passed | 1 failed"));
}
TEST_CASE("victim: REQUIREs in a coroutine" * doctest::skip()) {
  run([]() -> awaitable<void> {
    co_await sleep_for(1ms);
    REQUIRE(1 == 2);
    MESSAGE("never reached");
  }());
  MESSAGE("never reached");
}

TEST_CASE("a coroutine that hangs fails the test with a clear word, and the next test runs") {
  Victim victim("victim: hangs*");
  CHECK(victim.process.wait(30s) != 0);
  CHECK(victim.said("HUNG: after 0.05 s the test's coroutine has not ended"));
  CHECK(victim.said("the test hung for 0.05 s"));
  CHECK(victim.said("the one after it ran"));
}
TEST_CASE("victim: hangs" * doctest::skip()) { run(wait_for_ever(), 50ms); }
TEST_CASE("victim: hangs no more" * doctest::skip()) { MESSAGE("the one after it ran"); }

TEST_CASE("a coroutine that hangs and cannot be cancelled is aborted with a clear word") {
  Victim victim("victim: is deaf");
  CHECK(victim.process.wait(30s) != 0);
  CHECK(victim.said("HUNG: it does not leave when it is cancelled either"));
}
TEST_CASE("victim: is deaf" * doctest::skip()) {
  run(
      []() -> awaitable<void> {
        co_await asio::this_coro::throw_if_cancelled(false);
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        co_await wait_for_ever();
      }(),
      50ms);
}

TEST_CASE("wait_for returns at once when the fact holds, and gives what was found") {
  int calls = 0;
  auto found = wait_for(30s, "the third call", [&]() -> Result<std::string> {
    if (++calls < 3) return fail(Errc::not_found, "call {}", calls);
    return "found";
  });
  CHECK(found == "found");
  CHECK(calls == 3);
  wait_for(30s, "truth", [] { return true; });
}

TEST_CASE("a fact that does not come is reported with what was seen last") {
  Victim victim("victim: waits in vain*");
  CHECK(victim.process.wait(30s) != 0);
  CHECK(victim.said("waited 0.05 s for: a number\nlast seen: only a 7"));
  CHECK(victim.said("waited 0.05 s for: a pig that flies\nlast seen: it is not so"));
}
TEST_CASE("victim: waits in vain" * doctest::skip()) {
  wait_for(50ms, "a number", []() -> Result<> { return fail(Errc::not_found, "only a {}", 7); });
}
TEST_CASE("victim: waits in vain, as a coroutine" * doctest::skip()) {
  run([]() -> awaitable<void> {
    co_await eventually(50ms, "a pig that flies", [] { return false; });
  }());
}

TEST_CASE(
    "eventually lets the rest of the program run while it waits, for plain facts and for "
    "coroutines") {
  run([]() -> awaitable<void> {
    bool done = false;
    TaskGroup tasks(co_await asio::this_coro::executor);
    tasks.start("setter", [](bool& flag) -> awaitable<void> {
      co_await sleep_for(5ms);
      flag = true;
    }(done));
    co_await eventually(30s, "the other task is done", [&] { return done; });
    co_await tasks.join();
    int calls = 0;
    int found = co_await eventually(30s, "the third call", third_time, calls);
    CHECK(found == 42);
    CHECK(calls == 3);
  }());
}
