#include "base/clock.h"

#include <doctest/doctest.h>
#include <time.h>

#include <set>

#include "base/uuid.h"

using namespace warren;

TEST_CASE("the clock for deadlines goes on while the machine is suspended, and never steps back") {
  timespec boot{};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  auto first = Clock::now();
  CHECK(first.time_since_epoch() >= std::chrono::seconds(boot.tv_sec));
  CHECK(first.time_since_epoch() - std::chrono::seconds(boot.tv_sec) < 60s);
  CHECK(Clock::now() >= first);
}

TEST_CASE("a wall time is written in UTC with milliseconds, cut and never rounded up") {
  CHECK(iso8601(WallClock::time_point()) == "1970-01-01T00:00:00.000Z");
  auto newest = WallClock::time_point(std::chrono::seconds(1769903999)) + 123999us;
  CHECK(iso8601(newest) == "2026-01-31T23:59:59.123Z");
  CHECK(iso8601(WallClock::time_point() - 1ms) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("a UUID has version 4, the RFC's variant, lower-case digits, and is not given twice") {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    auto id = uuid4();
    CHECK(is_uuid(id));
    CHECK(id[14] == '4');
    CHECK(std::string_view("89ab").contains(id[19]));
    CHECK(id.find_first_not_of("0123456789abcdef-") == id.npos);
    CHECK(seen.insert(id).second);
  }
}

TEST_CASE("what is not 8-4-4-4-12 hex digits is no UUID") {
  CHECK(is_uuid("6BA7B810-9DAD-11D1-80B4-00C04FD430C8"));
  for (auto text : {"", "6ba7b810", "6ba7b8109dad11d180b400c04fd430c8",
                    "6ba7b810-9dad-11d1-80b4-00c04fd430c", "6ba7b810-9dad-11d1-80b4-00c04fd430c8x",
                    "6ba7b810-9dad-11d1-80b4-00c04fd430cg", "6ba7b810+9dad-11d1-80b4-00c04fd430c8"})
    CHECK_FALSE(is_uuid(text));
}
