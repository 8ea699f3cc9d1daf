#include "proof/testkit/run.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <cstdio>
#include <cstdlib>

namespace warren::inline testkit {

namespace {

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void run(awaitable<void> body, Clock::duration limit) {
  asio::io_context io(1);
  asio::cancellation_signal cancel;
  std::exception_ptr thrown;
  bool ended = false;
  auto on_end = [&](std::exception_ptr e) {
    thrown = e;
    ended = true;
  };
  asio::co_spawn(io, std::move(body), asio::bind_cancellation_slot(cancel.slot(), on_end));
  io.run_for(limit);
  bool hung = !io.stopped();
  if (hung) {
    fmt::print(stderr, "HUNG: after {} s {}\n", seconds(limit),
               ended ? "the test's coroutine has ended, but something it started goes on"
                     : "the test's coroutine has not ended");
    cancel.emit(asio::cancellation_type::terminal);
    io.run_for(2s);
  }
  if (!io.stopped()) {
    // Its frames refer to each other, and no order of destroying them is right.
    fmt::print(stderr, "HUNG: it does not leave when it is cancelled either\n");
    std::abort();
  }
  if (hung) fail_test(fmt::format("the test hung for {} s", seconds(limit)));
  if (thrown) std::rethrow_exception(thrown);
}

void detail::fail_waiting(Clock::duration limit, const std::string& what, const std::string& seen) {
  fail_test(fmt::format("waited {} s for: {}\nlast seen: {}", seconds(limit), what, seen));
}

}  // namespace warren::inline testkit
