#include "services/session/keeper/accounts.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::session;

namespace {

struct Slow {
  int asked = 0;
  Event may_answer;
  bool answers = false;
};

awaitable<Account> fetched(Slow& from, std::string name) {
  ++from.asked;
  while (!from.answers) co_await from.may_answer.wait();
  Account account{.log = name + " " + std::to_string(from.asked)};
  co_return account;
}

}  // namespace

TEST_CASE("an answer does not wait for a log that is slow to come, and the next one has it") {
  auto all = []() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Slow slow{.may_answer = Event(executor)};
    Accounts accounts(executor,
                      [&slow](std::string name) { return fetched(slow, std::move(name)); },
                      {.fresh = 1h, .patience = 50ms});
    auto body = [](TaskGroup& tasks, Accounts& of, Slow& from) -> awaitable<bool> {
      auto began = Clock::now();
      auto none = co_await of.of(tasks, "a", "life 1");
      CHECK(none.log.empty());
      CHECK(Clock::now() - began < 10s);
      auto again = co_await of.of(tasks, "a", "life 1");
      CHECK(again.log.empty());
      CHECK(from.asked == 1);
      from.answers = true;
      from.may_answer.notify();
      for (Account seen; seen.log.empty();) seen = co_await of.of(tasks, "a", "life 1");
      auto seen = co_await of.of(tasks, "a", "life 1");
      CHECK(seen.log == "a 1");
      CHECK(from.asked == 1);
      // The next life has another log.
      auto next = co_await of.of(tasks, "a", "life 2");
      CHECK(next.log == "a 2");
      co_return true;
    };
    co_await with_group(body, accounts, slow);
  };
  asio::io_context io;
  bool is_over = false;
  asio::co_spawn(io, all(), [&is_over](std::exception_ptr thrown) {
    if (thrown) std::rethrow_exception(thrown);
    is_over = true;
  });
  io.run_for(60s);
  CHECK(is_over);
}
