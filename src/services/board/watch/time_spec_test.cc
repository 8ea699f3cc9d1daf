#include "services/board/watch/time_spec.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>

using namespace warren;
using namespace warren::watch;
using board::UnixTime;
using std::chrono::milliseconds;

namespace {

constexpr auto now = UnixTime(milliseconds(1'800'000'000'000));

std::int64_t parsed(std::string_view text) {
  CAPTURE(std::string(text));
  auto time = parse_time_spec(text, now);
  REQUIRE_MESSAGE(time, time.error().what);
  return time->time_since_epoch().count();
}

}  // namespace

TEST_CASE("a moment is RFC 3339, with a fraction and an offset if there is one") {
  CHECK(parsed("1970-01-01T00:00:00Z") == 0);
  CHECK(parsed("2025-10-31T12:00:00Z") == 1'761'912'000'000);
  CHECK(parsed("2025-10-31T12:00:00.5Z") == 1'761'912'000'500);
  CHECK(parsed("2025-10-31T12:00:00.123456789Z") == 1'761'912'000'123);
  CHECK(parsed("2025-10-31T14:00:00+02:00") == 1'761'912'000'000);
  CHECK(parsed("2025-10-31T06:30:00-05:30") == 1'761'912'000'000);
  CHECK(parsed("2024-02-29T00:00:00Z") == 1'709'164'800'000);
}

TEST_CASE("a Go duration is so long ago, and a negative one is still to come") {
  const auto at = now.time_since_epoch().count();
  struct Case {
    const char* text;
    std::int64_t ago_ms;
  };
  for (auto [text, ago] : {Case{"0", 0},
                           {"90s", 90'000},
                           {"1h30m", 5'400'000},
                           {"1.5h", 5'400'000},
                           {"250ms", 250},
                           {"1500us", 1},
                           {"1500µs", 1},
                           {"2000000ns", 2},
                           {"-10s", -10'000},
                           {"+1m", 60'000},
                           {".5s", 500},
                           {"1.s", 1000},
                           {"1h1h", 7'200'000}})
    CHECK(parsed(text) == at - ago);
}

TEST_CASE("what is neither is refused, with both forms") {
  for (auto text : {"",
                    "yesterday",
                    "1",
                    "h",
                    "1d",
                    "1h30",
                    "1.2.3s",
                    "-",
                    "1e3s",
                    "--1s",
                    ". s",
                    "99999999999h",
                    "2025-10-31",
                    "2025-10-31T12:00:00",
                    "2025-13-01T00:00:00Z",
                    "2025-02-29T00:00:00Z",
                    "2025-10-31T24:00:00Z",
                    "2025-10-31T12:00:60Z",
                    "2025-10-31T12:00:00.Z",
                    "2025-10-31T12:00:00+2:00",
                    "2025-10-31T12:00:00ZZ",
                    "2025-10-31 12:00:00Z",
                    "infs",
                    "nans",
                    "0x1s"}) {
    auto time = parse_time_spec(text, now);
    CAPTURE(text);
    REQUIRE(!time);
    CHECK(time.error().code == Errc::invalid);
    CHECK(time.error().what.contains("1h30m"));
  }
}

TEST_CASE("times are shown to the millisecond, in UTC for programs and as local time for people") {
  auto time = UnixTime(milliseconds(1'761'912'000'007));
  CHECK(rfc3339(time) == "2025-10-31T12:00:00.007Z");
  setenv("TZ", "UTC-3", 1);
  tzset();
  CHECK(local_time(time) == "15:00:00.007");
  unsetenv("TZ");
  tzset();
}
