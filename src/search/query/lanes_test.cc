#include "search/query/lanes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <latch>
#include <mutex>

namespace warren::search {
namespace {

TEST_CASE("short queries overtake long ones, of which there are more than threads" *
          doctest::test_suite("threads")) {
  std::atomic<bool> may_end = false;
  std::latch long_ones(3), short_ones(20);
  Lanes lanes(2);
  for (int i = 0; i < 3; ++i)
    REQUIRE(lanes.submit([&](Clock::time_point) {
      if (!may_end) return std::this_thread::yield(), false;
      long_ones.count_down();
      return true;
    }));
  for (int i = 0; i < 20; ++i)
    REQUIRE(lanes.submit([&](Clock::time_point until) {
      CHECK(until > Clock::now());
      short_ones.count_down();
      return true;
    }));
  short_ones.wait();
  may_end = true;
  long_ones.wait();
}

TEST_CASE("a long query is done though short ones never cease" * doctest::test_suite("threads")) {
  std::atomic<bool> is_done = false;
  std::promise<void> done;
  int slices = 0;
  Lanes lanes(2);
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&] {
      while (!is_done) {
        std::promise<void> answered;
        CHECK(lanes.submit([&](Clock::time_point) { return answered.set_value(), true; }));
        answered.get_future().wait();
      }
    });
  REQUIRE(lanes.submit([&](Clock::time_point) {
    if (++slices < 100) return false;
    is_done = true;
    done.set_value();
    return true;
  }));
  done.get_future().wait();
}

TEST_CASE("of the long ones the oldest is done first" * doctest::test_suite("threads")) {
  std::vector<int> order;
  std::mutex mutex;
  std::latch all(3);
  std::promise<void> may_go;
  auto go = may_go.get_future().share();
  Lanes lanes(2);
  // One thread is blocked, so the other does all the work.
  REQUIRE(lanes.submit([&](Clock::time_point) { return go.wait(), true; }));
  for (int i = 0; i < 3; ++i)
    REQUIRE(lanes.submit([&, i, left = 4](Clock::time_point) mutable {
      std::lock_guard lock(mutex);
      order.push_back(i);
      if (--left > 0) return false;
      all.count_down();
      return true;
    }));
  all.wait();
  may_go.set_value();
  CHECK(order == std::vector{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
}

TEST_CASE("more than may wait is refused" * doctest::test_suite("threads")) {
  std::promise<void> may_end;
  auto ending = may_end.get_future().share();
  std::latch begun(2);
  Lanes lanes(1, {.most_waiting = 2});
  for (int i = 0; i < 2; ++i)
    REQUIRE(lanes.submit([&](Clock::time_point) {
      begun.count_down();
      ending.wait();
      return true;
    }));
  begun.wait();
  CHECK(lanes.submit([](Clock::time_point) { return true; }));
  CHECK(lanes.submit([](Clock::time_point) { return true; }));
  auto refused = lanes.submit([](Clock::time_point) { return true; });
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::overloaded);
  may_end.set_value();
}

// Blocks one of two threads, so that the other does all the work in a fixed order.
struct OneThread {
  std::promise<void> may_go = {};
  std::shared_future<void> go = may_go.get_future().share();

  void keep(Lanes& lanes, int threads = 1) const {
    std::latch begun(threads);
    for (int i = 0; i < threads; ++i)
      REQUIRE(lanes.submit(
          [&begun, go = go](Clock::time_point) {
            begun.count_down();
            go.wait();
            return true;
          },
          "keeper"));
    begun.wait();
  }
};

TEST_CASE("clients take turns, however many queries one of them has waiting" *
          doctest::test_suite("threads")) {
  std::vector<std::string> order;
  std::mutex mutex;
  std::latch all(12);
  OneThread kept;
  {
    Lanes lanes(2);
    kept.keep(lanes, 2);
    auto submit = [&](const std::string& client, int slices) {
      REQUIRE(lanes.submit(
          [&, client, left = slices](Clock::time_point) mutable {
            std::lock_guard lock(mutex);
            if (--left > 0) return false;
            order.push_back(client);
            all.count_down();
            return true;
          },
          client));
    };
    for (int i = 0; i < 10; ++i) submit("many", 1);
    submit("one", 1);
    submit("slow", 3);
    kept.may_go.set_value();
    all.wait();
  }
  // With two threads, neighbours may finish in either order.
  auto place = [&](const std::string& client) {
    return std::ranges::find(order, client) - order.begin();
  };
  CHECK(place("one") <= 3);
  CHECK(place("slow") <= 8);
  CHECK(std::ranges::count(order, "many") == 10);
}

TEST_CASE("a client may have so many queries waiting, and others are not concerned" *
          doctest::test_suite("threads")) {
  OneThread kept;
  std::latch done(3);
  auto work = [&](Clock::time_point) { return done.count_down(), true; };
  Lanes lanes(2, {.most_waiting = 10, .most_waiting_per_client = 2});
  kept.keep(lanes, 2);
  CHECK(lanes.submit(work, "a"));
  CHECK(lanes.submit(work, "a"));
  auto refused = lanes.submit(work, "a");
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::overloaded);
  CHECK(refused.error().what == "2 queries of this client are waiting");
  CHECK(lanes.submit(work, "b"));
  kept.may_go.set_value();
  done.wait();
  // Finished work no longer counts.
  std::promise<void> again;
  for (bool is_taken = false; !is_taken;)
    is_taken =
        lanes.submit([&](Clock::time_point) { return again.set_value(), true; }, "a").has_value();
  again.get_future().wait();
}

TEST_CASE("a query that waits is gone when it is cancelled, with all that it held" *
          doctest::test_suite("threads")) {
  OneThread kept;
  auto held = std::make_shared<int>(1);
  std::atomic<bool> was_run = false;
  Lanes lanes(2);
  kept.keep(lanes, 2);
  auto ticket = lanes.submit([&was_run, held](Clock::time_point) { return was_run = true; }, "a");
  auto other = lanes.submit([](Clock::time_point) { return true; }, "a");
  REQUIRE(ticket);
  CHECK(held.use_count() == 2);
  CHECK(lanes.cancel(*ticket) == Lanes::Cancelled::dropped);
  CHECK(held.use_count() == 1);
  CHECK(lanes.cancel(*ticket) == Lanes::Cancelled::over);
  CHECK(lanes.cancel(12345) == Lanes::Cancelled::over);
  CHECK(lanes.cancel(*other) == Lanes::Cancelled::dropped);
  std::promise<void> last;
  REQUIRE(lanes.submit([&](Clock::time_point) { return last.set_value(), true; }, "b"));
  kept.may_go.set_value();
  last.get_future().wait();
  CHECK(!was_run);
}

TEST_CASE("a query that is cancelled in the middle of a slice has no other" *
          doctest::test_suite("threads")) {
  std::promise<void> begun, may_end;
  auto ending = may_end.get_future().share();
  auto held = std::make_shared<int>(1);
  std::atomic<int> slices = 0;
  Lanes lanes(2);
  auto ticket = lanes.submit(
      [&, held](Clock::time_point) {
        if (++slices == 1) begun.set_value();
        ending.wait();
        return false;
      },
      "a");
  REQUIRE(ticket);
  begun.get_future().wait();
  CHECK(lanes.cancel(*ticket) == Lanes::Cancelled::running);
  CHECK(lanes.cancel(*ticket) == Lanes::Cancelled::over);
  may_end.set_value();
  while (held.use_count() > 1) std::this_thread::yield();
  CHECK(slices == 1);
}

TEST_CASE("a long query is cancelled between two slices" * doctest::test_suite("threads")) {
  std::promise<void> second;
  std::atomic<int> slices = 0;
  std::atomic<bool> is_gone = false;
  struct Gone {
    std::atomic<bool>& flag;
    ~Gone() { flag = true; }
  };
  auto held = std::make_shared<Gone>(is_gone);
  Lanes lanes(2);
  auto ticket = lanes.submit([&, held](Clock::time_point) {
    if (++slices == 2) second.set_value();
    return false;
  });
  held.reset();
  REQUIRE(ticket);
  second.get_future().wait();
  CHECK(lanes.cancel(*ticket) != Lanes::Cancelled::over);
  while (!is_gone) std::this_thread::yield();
  int before = slices;
  std::promise<void> other;
  REQUIRE(lanes.submit([&](Clock::time_point) { return other.set_value(), true; }));
  other.get_future().wait();
  CHECK(slices == before);
}

}  // namespace
}  // namespace warren::search
