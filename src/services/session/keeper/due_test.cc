#include "services/session/keeper/due.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::session;

namespace {

const DueTerms terms{.idle = 20min, .lifetime = 48h, .keep_paused = 24h * 60};

}  // namespace

TEST_CASE("what nobody uses is paused, and what somebody uses is not") {
  CHECK(due(Phase::running, 1h, 19min, terms).what == Due::What::nothing);
  CHECK(due(Phase::running, 1h, 20min, terms).what == Due::What::pause);
}

TEST_CASE("what nobody uses is stopped instead, where that is asked for") {
  auto ending = terms;
  ending.idle_stops = true;
  CHECK(due(Phase::running, 1h, 19min, ending).what == Due::What::nothing);
  auto what = due(Phase::running, 1h, 20min, ending);
  CHECK(what.what == Due::What::stop);
  CHECK(what.is_idle);
}

TEST_CASE("what starts is not idle, however long that takes") {
  CHECK(due(Phase::starting, 1h, 1h, terms).what == Due::What::nothing);
}

TEST_CASE("the end of a lifetime comes whatever the sandbox does, and 0 is never") {
  for (auto phase : {Phase::running, Phase::starting, Phase::paused, Phase::ended})
    CHECK(due(phase, 48h, 0h, terms).what == Due::What::stop);
  CHECK(due(Phase::running, 480h, 0h, {}).what == Due::What::nothing);
}

TEST_CASE(
    "files of a session that is paused, or ended by itself, are kept for as long as was said") {
  auto none = terms;
  none.lifetime = 0ms;
  for (auto phase : {Phase::paused, Phase::ended}) {
    CHECK(due(phase, 24h * 90, 24h * 59, none).what == Due::What::nothing);
    CHECK(due(phase, 24h * 90, 24h * 60, none).what == Due::What::stop);
  }
}

TEST_CASE("nothing is due for what is ending already") {
  CHECK(due(Phase::ending, 24h * 365, 24h * 365, terms).what == Due::What::nothing);
}

TEST_CASE("a stamp from before counts as old as it is, and from then on time that nobody can set") {
  Ages ages;
  auto now = Clock::now();
  auto today = WallClock::now();
  auto stamp = today - 10min;
  auto first = ages.of("a", stamp, now);
  CHECK(first >= 10min);
  CHECK(first < 11min);
  CHECK(ages.of("a", stamp, now + 5min) == first + 5min);
  // Of a clock that is ahead of ours.
  CHECK(ages.of("b", today + 1h, now) == 0h);
}

TEST_CASE("who is used while we look is not idle, whatever the clock of the one who said so") {
  Ages ages;
  auto now = Clock::now();
  auto stamp = WallClock::now();
  ages.of("a", stamp, now);
  // It was set back by an hour between the two.
  CHECK(ages.of("a", stamp - 1h, now + 1min) == 0h);
  CHECK(ages.of("a", stamp - 1h, now + 3min) == 2min);
  ages.forget_if([](const std::string& name) { return name == "a"; });
  CHECK(ages.of("a", stamp - 1h, now + 3min) >= 1h);
}

TEST_CASE("a sandbox that failed is started again, later each time, and not for ever") {
  DueTerms often{.idle = 20min};
  auto replaces = [&](int failures, Clock::duration lived, Clock::duration ended) {
    return is_replacement_due(failures, lived, ended, ended, often);
  };
  CHECK(!replaces(1, 1min, 9s));
  CHECK(replaces(1, 1min, 10s));
  CHECK(!replaces(2, 1min, 19s));
  CHECK(replaces(2, 1min, 20s));
  CHECK(replaces(3, 1min, 40s));
  CHECK(!replaces(4, 1min, 10min));
  // It was up for long enough to begin to count again.
  CHECK(replaces(9, 10min, 10s));
  // It never came up.
  CHECK(!replaces(1, 0s, 10s));
  // Nobody uses it.
  CHECK(!is_replacement_due(1, 1min, 10s, 20min, often));
  often.most_replacements = 0;
  CHECK(!replaces(1, 1min, 10s));
}
