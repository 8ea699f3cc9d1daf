#include "services/fleet/node/warming.h"

#include <doctest/doctest.h>

namespace warren::fleet {

TEST_CASE("how long a repository still takes is told by how far it is, or by the last time") {
  Clock::time_point now(100s);
  Warming first(0ms, 0ms);
  CHECK_FALSE(first.progress());
  CHECK_FALSE(first.eta(now));
  first.enter(Phase::fetching, now);
  CHECK_FALSE(first.eta(now + 1s));
  first.enter(Phase::reading, now + 2s);
  CHECK_FALSE(first.eta(now + 3s));
  first.on_part(0.25);
  CHECK(first.progress() == 0.25);
  CHECK(first.eta(now + 4s) == 6s);
  first.on_part(1);
  CHECK(first.eta(now + 10s) == 0s);

  Warming again(4s, 2s);
  CHECK(again.eta(now) == 6s);
  again.enter(Phase::fetching, now);
  CHECK(again.eta(now + 1s) == 5s);
  CHECK(again.eta(now + 9s) == 2s);
  again.enter(Phase::reading, now + 9s);
  CHECK_FALSE(again.progress());
  CHECK(again.eta(now + 10s) == 1s);
  CHECK(again.phase() == Phase::reading);
}

}  // namespace warren::fleet
