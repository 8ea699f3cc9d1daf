#include "services/fleet/fetch/slots.h"

#include <doctest/doctest.h>

#include "proof/testkit/run.h"

using namespace warren;
using namespace warren::fleet;

namespace {

constexpr auto never = Clock::time_point::max();

// Takes a slot and keeps it until it is told to go; notes that it was let in.
awaitable<void> work(FetchSlots& slots, std::string host, std::string repo,
                     std::vector<std::string>& order, Event& done) {
  auto slot = co_await slots.acquire(host, repo, never);
  if (!slot) co_return;
  order.push_back(repo);
  co_await done.wait();
}

}  // namespace

TEST_CASE("a full host holds up its own callers, who are let in in order, and nobody else") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    FetchSlots slots(executor, {.running = 3, .of_one_host = 2});
    std::vector<std::string> order;
    auto body = [](TaskGroup& group, FetchSlots& all, std::vector<std::string>& seen) -> Async<> {
      auto here = co_await asio::this_coro::executor;
      Event done(here);
      for (std::string repo : {"a1", "a2", "a3", "a4", "b1", "b2"})
        group.start(repo, work(all, repo.substr(0, 1), repo, seen, done));
      co_await eventually(30s, "three run", [&] { return seen.size() == 3; });
      CHECK(seen == std::vector<std::string>{"a1", "a2", "b1"});
      CHECK(all.running() == 3);
      done.notify();
      co_await eventually(30s, "the others run", [&] { return seen.size() == 6; });
      CHECK(seen == std::vector<std::string>{"a1", "a2", "b1", "a3", "a4", "b2"});
      done.notify();
      co_await eventually(30s, "all are done", [&] { return all.running() == 0; });
      co_return ok;
    };
    auto ended = co_await with_group(body, slots, order);
    CHECK(ended);
  }());
}

TEST_CASE("a repository has one slot at a time") {
  run([]() -> awaitable<void> {
    FetchSlots slots(co_await asio::this_coro::executor, {.running = 4, .of_one_host = 4});
    auto first = co_await slots.acquire("a", "x", never);
    REQUIRE(first);
    auto second = co_await slots.acquire("a", "x", Clock::now() + 20ms);
    REQUIRE(!second);
    CHECK(second.error().code == Errc::timeout);
    auto other = co_await slots.acquire("a", "y", never);
    CHECK(other);
    CHECK(slots.waiting() == 0);
  }());
}

TEST_CASE("who waits too long, or with too many others, is told so and leaves no trace") {
  run([]() -> awaitable<void> {
    FetchSlots slots(co_await asio::this_coro::executor,
                     {.running = 1, .of_one_host = 1, .waiting = 0});
    auto none = co_await slots.acquire("a", "x", never);
    REQUIRE(!none);
    CHECK(none.error().code == Errc::overloaded);
    CHECK(slots.running() == 0);
  }());
}

TEST_CASE("a caller that is cancelled while it waits gives its turn to the next") {
  run([]() -> awaitable<void> {
    using namespace asio::experimental::awaitable_operators;
    FetchSlots slots(co_await asio::this_coro::executor, {.running = 1, .of_one_host = 1});
    std::optional<Slot> holder;
    auto first = co_await slots.acquire("a", "x", never);
    REQUIRE(first);
    holder.emplace(std::move(*first));
    co_await (slots.acquire("a", "y", never) || sleep_for(20ms));
    CHECK(slots.waiting() == 0);
    holder.reset();
    CHECK(slots.running() == 0);
    auto next = co_await slots.acquire("a", "z", never);
    CHECK(next);
  }());
}
