#include "redis/connection/link.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::redis;

TEST_CASE("attempts to connect double their distance up to a bound and are spread") {
  Backoff backoff(10ms, 100ms);
  CHECK(backoff.next(0) == 5ms);
  CHECK(backoff.next(0) == 10ms);
  CHECK(backoff.next(0.5) == 30ms);
  for (int i = 0; i < 100; ++i) CHECK(backoff.next(0.999) <= 100ms);
  backoff.reset();
  CHECK(backoff.next(0) == 5ms);
}

TEST_CASE("looking for an answer before sleeping is tried more rarely the longer it is in vain") {
  Vigil vigil;
  auto calls_until_it_begins = [&] {
    int calls = 1;
    while (!vigil.may_begin()) ++calls;
    return calls;
  };
  CHECK(calls_until_it_begins() == 1);
  for (int expected : {1, 2, 4, 8}) {
    vigil.was_in_vain();
    CHECK(calls_until_it_begins() == expected);
  }
  vigil.paid();
  CHECK(calls_until_it_begins() == 1);
  for (int i = 0; i < 100; ++i) vigil.was_in_vain();
  CHECK(calls_until_it_begins() == 4096);
}
