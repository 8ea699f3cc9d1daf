#include "proof/sim/world.h"

#include <doctest/doctest.h>

#include <string>

using namespace warren;
using namespace warren::sim;

TEST_CASE("things are done when they are due, and in the order asked for when that is the same") {
  World world(1);
  auto start = world.now();
  std::string done;
  world.after(2ms, [&] { done += 'c'; });
  world.after(1ms, [&] { done += 'a'; });
  world.after(1ms, [&] { done += 'b'; });
  world.at(start + 5ms, [&] { done += 'e'; });
  world.run_until(start + 3ms);
  CHECK(done == "abc");
  CHECK(world.now() == start + 3ms);
  world.run_until(start + 5ms);
  CHECK(done == "abce");
}

TEST_CASE("what is asked for while things are done is done in its turn") {
  World world(1);
  auto start = world.now();
  std::vector<std::pair<std::string, Clock::duration>> done;
  world.after(1ms, [&] {
    done.emplace_back("first", world.now() - start);
    world.after(1ms, [&] { done.emplace_back("third", world.now() - start); });
    world.at(start, [&] { done.emplace_back("late", world.now() - start); });
  });
  world.after(1ms, [&] { done.emplace_back("second", world.now() - start); });
  world.run_until(start + 1s);
  REQUIRE(done.size() == 4);
  CHECK(done[0] == std::pair<std::string, Clock::duration>("first", 1ms));
  CHECK(done[1] == std::pair<std::string, Clock::duration>("second", 1ms));
  CHECK(done[2] == std::pair<std::string, Clock::duration>("late", 1ms));
  CHECK(done[3] == std::pair<std::string, Clock::duration>("third", 2ms));
  CHECK(world.actions_done() == 4);
}

TEST_CASE("a seed repeats all chances, and another seed gives others") {
  World a(7), b(7), c(8);
  int same = 0;
  for (int i = 0; i < 1000; ++i) {
    double drawn = a.unit();
    CHECK(drawn >= 0);
    CHECK(drawn < 1);
    CHECK(drawn == b.unit());
    same += drawn == c.unit();
  }
  CHECK(same == 0);
}

TEST_CASE("chances are as likely as they say") {
  World world(3);
  int counts[6] = {}, hits = 0;
  double sum = 0;
  for (int i = 0; i < 60000; ++i) {
    ++counts[world.below(6)];
    hits += world.chance(0.25);
    auto time = world.between(10ms, 20ms);
    CHECK(time >= 10ms);
    CHECK(time < 20ms);
    sum += std::chrono::duration<double>(time).count();
  }
  for (int count : counts) CHECK(count == doctest::Approx(10000).epsilon(0.05));
  CHECK(hits == doctest::Approx(15000).epsilon(0.05));
  CHECK(sum / 60000 == doctest::Approx(0.015).epsilon(0.02));
  CHECK(!world.chance(0));
  CHECK(world.chance(1));
  CHECK(world.between(5ms, 5ms) == 5ms);
}
