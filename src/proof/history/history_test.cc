#include "proof/history/history.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::history;

namespace {
Clock::time_point at(Clock::duration time) { return Clock::time_point(time); }
}  // namespace

TEST_CASE("histories of several processes become one, sorted, with attempts of their own") {
  LeaseHistory one, other;
  auto a = one.begun(at(1ms), 1, 7);
  one.released(at(9ms), a);
  auto b = other.begun(at(2ms), 2, 7);
  other.lost(at(3ms), b);
  REQUIRE(a == b);  // each counts from zero
  one.add(other);
  one.sort();
  REQUIRE(one.events().size() == 4);
  CHECK(one.attempts() == 2);
  CHECK(one.events()[1].process == 2);
  CHECK(one.events()[1].attempt == one.events()[2].attempt);
  CHECK(one.events()[0].attempt != one.events()[1].attempt);
  CHECK(one.events()[3].kind == LeaseEvent::Kind::released);

  one.clear();
  CHECK(one.events().empty());
  CHECK(one.begun(at(1ms), 1, 7) == 0);
}

TEST_CASE("events of the same moment keep the order in which they were written") {
  MirrorHistory history;
  history.applied(at(2ms), 1, {1, 3});
  history.read(at(1ms), 1, {1, 1}, 0ms);
  history.read(at(2ms), 1, {1, 3}, 0ms);
  history.sort();
  CHECK(history.events()[0].id == Token{1, 1});
  CHECK(history.events()[1].kind == MirrorEvent::Kind::applied);
  CHECK(history.events()[2].kind == MirrorEvent::Kind::read);
}

TEST_CASE("an event is one line with its time, who it was and what it says") {
  LeaseHistory history;
  auto attempt = history.begun(at(1s), 3, 2);
  history.granted(at(1s + 1ms), attempt,
                  {.token = {1, 41}, .since = at(1s), .deadline = at(1s + 500ms)});
  history.killed(at(2s), 3);
  auto line = [&](int i) { return describe(history.events()[i], at(1s)); };
  CHECK(line(0) == "     +0.000 ms  process 3  lock 2  attempt 0  begun, until never");
  CHECK(line(1) ==
        "     +1.000 ms  process 3  lock 2  attempt 0  granted token 1.41, asked at +0.000 ms, "
        "until +500.000 ms");
  CHECK(line(2) == "  +1000.000 ms  process 3  killed");

  MirrorHistory mirror;
  mirror.acknowledged(at(1s), 4, {2, 7});
  mirror.session_read(at(1s), 4, {2, 7}, 3ms);
  CHECK(describe(mirror.events()[0], at(1s)) == "     +0.000 ms  process 4  acknowledged 2.7");
  CHECK(describe(mirror.events()[1], at(1s)) ==
        "     +0.000 ms  process 4  session_read 2.7, age 3.000 ms");
}
