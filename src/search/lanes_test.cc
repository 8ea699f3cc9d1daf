#include "search/lanes.h"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <latch>

namespace warren::search {
namespace {

TEST_CASE("a long query leaves a thread for short ones, and is done in the batch lane") {
  Lanes lanes(2);
  std::promise<void> may_end;
  auto ending = may_end.get_future().share();
  std::latch long_ones(2), short_ones(20);
  std::atomic<int> in_batch = 0, most_in_batch = 0;
  for (int i = 0; i < 2; ++i)
    REQUIRE(lanes.submit([&](Lane lane) {
      if (lane == Lane::interactive) return false;
      most_in_batch = std::max(most_in_batch.load(), ++in_batch);
      ending.wait();
      --in_batch;
      long_ones.count_down();
      return true;
    }));
  // Both long ones wait or run in the batch lane now; the short ones pass them.
  for (int i = 0; i < 20; ++i)
    REQUIRE(lanes.submit([&](Lane lane) {
      if (lane == Lane::interactive) short_ones.count_down();
      return true;
    }));
  short_ones.wait();
  may_end.set_value();
  long_ones.wait();
  CHECK(most_in_batch == 1);
}

TEST_CASE("more than may wait is refused") {
  std::promise<void> may_end;
  auto ending = may_end.get_future().share();
  std::latch begun(1);
  Lanes lanes(1, 2);
  REQUIRE(lanes.submit([&](Lane) {
    begun.count_down();
    ending.wait();
    return true;
  }));
  begun.wait();
  CHECK(lanes.submit([](Lane) { return true; }));
  CHECK(lanes.submit([](Lane) { return true; }));
  auto refused = lanes.submit([](Lane) { return true; });
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::overloaded);
  may_end.set_value();
}

}  // namespace
}  // namespace warren::search
