#include "services/session/keeper/due.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::session;

namespace {

const WallClock::time_point start = WallClock::from_time_t(1'700'000'000);

Sandbox sandbox_in(Phase phase) {
  return {.phase = phase, .created_at = start, .started_at = start};
}

const DueTerms terms{.idle = 20min, .lifetime = 48h, .keep_paused = 24h * 60};

}  // namespace

TEST_CASE("what nobody uses is paused, and what somebody uses is not") {
  auto running = sandbox_in(Phase::running);
  CHECK(due(running, start, start + 19min, terms).what == Due::What::nothing);
  CHECK(due(running, start, start + 20min, terms).what == Due::What::pause);
  CHECK(due(running, start + 10min, start + 20min, terms).what == Due::What::nothing);
}

TEST_CASE("what nobody uses is stopped instead, where that is asked for") {
  auto running = sandbox_in(Phase::running);
  auto ending = terms;
  ending.idle_stops = true;
  CHECK(due(running, start, start + 19min, ending).what == Due::What::nothing);
  auto what = due(running, start, start + 20min, ending);
  CHECK(what.what == Due::What::stop);
  CHECK(what.is_idle);
}

TEST_CASE("what starts is not idle, however long that takes") {
  CHECK(due(sandbox_in(Phase::starting), start, start + 1h, terms).what == Due::What::nothing);
}

TEST_CASE("the end of a lifetime comes whatever the sandbox does, and 0 is never") {
  for (auto phase : {Phase::running, Phase::starting, Phase::paused, Phase::ended})
    CHECK(due(sandbox_in(phase), start + 48h, start + 48h, terms).what == Due::What::stop);
  CHECK(due(sandbox_in(Phase::running), start + 480h, start + 480h, {}).what == Due::What::nothing);
}

TEST_CASE(
    "files of a session that is paused, or ended by itself, are kept for as long as was said") {
  auto none = terms;
  none.lifetime = 0ms;
  for (auto phase : {Phase::paused, Phase::ended}) {
    CHECK(due(sandbox_in(phase), start, start + 24h * 59, none).what == Due::What::nothing);
    CHECK(due(sandbox_in(phase), start, start + 24h * 60, none).what == Due::What::stop);
  }
}

TEST_CASE("nothing is due for what is ending already") {
  CHECK(due(sandbox_in(Phase::ending), start, start + 24h * 365, terms).what == Due::What::nothing);
}
