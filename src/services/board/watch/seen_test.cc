#include "services/board/watch/seen.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace std::chrono_literals;
using namespace warren::watch;
using board::UnixTime;

namespace {
constexpr auto noon = UnixTime(std::chrono::milliseconds(1'761'912'000'000));
}

TEST_CASE("what was shown is not shown again") {
  Seen seen(noon);
  CHECK(seen.add("artefact a", noon));
  CHECK(!seen.add("artefact a", noon + 1s));
  CHECK(seen.add("claim a", noon));
  CHECK(seen.add("", noon));
  CHECK(seen.add("", noon));
}

TEST_CASE("history is read again from a little before the latest, never from before the begin") {
  Seen seen(noon);
  CHECK(seen.resume_from() == noon);
  seen.add("a", noon + 2min);
  CHECK(seen.resume_from() == noon);
  seen.add("b", noon + 60min);
  CHECK(seen.resume_from() == noon + 55min);
  seen.add("c", noon + 30min);  // heard late
  CHECK(seen.resume_from() == noon + 55min);
}

TEST_CASE("of a long watch only what may come again is remembered") {
  Seen seen(noon);
  for (int i = 0; i < 100'000; ++i) {
    auto at = noon + i * 1s;
    CHECK(seen.add(std::to_string(i), at));
    if (i >= 200) CHECK(!seen.add(std::to_string(i - 200), at));
  }
  CHECK(seen.add("0", noon));  // forgotten
}
