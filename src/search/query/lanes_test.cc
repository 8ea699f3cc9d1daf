#include "search/query/lanes.h"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <latch>
#include <mutex>

namespace warren::search {
namespace {

TEST_CASE("short queries overtake long ones, of which there are more than threads") {
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

TEST_CASE("a long query is done though short ones never cease") {
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

TEST_CASE("of the long ones the oldest is done first") {
  std::vector<int> order;
  std::mutex mutex;
  std::latch all(3);
  std::promise<void> may_go;
  auto go = may_go.get_future().share();
  Lanes lanes(2);
  // One thread is kept; the other does everything.
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

TEST_CASE("more than may wait is refused") {
  std::promise<void> may_end;
  auto ending = may_end.get_future().share();
  std::latch begun(2);
  Lanes lanes(1, 2);
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

}  // namespace
}  // namespace warren::search
