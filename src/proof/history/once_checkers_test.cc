#include "proof/history/once_checkers.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::history;
using Kind = OnceEvent::Kind;

namespace {

Clock::time_point at(Clock::duration time) { return Clock::time_point(1h + time); }

// The facts of one test; times are in milliseconds.
struct Facts {
  OnceHistory history;
  OnceBounds bounds{.slack = 5ms};

  void note(int time, Kind kind, ProcessId process, std::uint32_t call, std::uint64_t token = 0,
            std::uint64_t value = 0, int since = 0, int deadline = 0) {
    history.note({.at = at(std::chrono::milliseconds(time)),
                  .kind = kind,
                  .process = process,
                  .call = call,
                  .token = {0, token},
                  .value = value,
                  .since = at(std::chrono::milliseconds(since)),
                  .deadline = at(std::chrono::milliseconds(deadline))});
  }
  void claimed(int time, ProcessId process, std::uint64_t token, int since, int deadline) {
    note(time, Kind::claimed, process, std::uint32_t(token), token, 0, since, deadline);
  }
  void let_go(int time, ProcessId process, std::uint64_t token) {
    note(time, Kind::let_go, process, std::uint32_t(token));
  }
  std::string broken() {
    history.sort();
    auto violation = OnceJudge(history, bounds).first_violation();
    return violation ? violation->invariant : "";
  }
};

}  // namespace

TEST_CASE("one works after the other, and the others are given what was left: that is allowed") {
  Facts facts;
  facts.note(0, Kind::asked, 2, 9, 0, 0, 0, 500);
  facts.claimed(10, 1, 41, 5, 400);
  facts.let_go(100, 1, 41);
  facts.note(100, Kind::accepted, 1, 41, 41, 7, 90);
  facts.note(105, Kind::answered, 2, 9, 41, 7, 0);
  facts.claimed(120, 2, 42, 110, 500);
  facts.let_go(130, 2, 42);
  CHECK(facts.broken().empty());
}

TEST_CASE("two who work at a time are found, but not in lossy times") {
  Facts facts;
  facts.claimed(10, 1, 41, 5, 400);
  facts.let_go(100, 1, 41);
  facts.claimed(90, 2, 42, 80, 500);
  facts.let_go(95, 2, 42);
  SUBCASE("") { CHECK(facts.broken() == "I19"); }
  SUBCASE("") {
    facts.bounds.lossy = {{at(50ms), at(200ms)}};
    CHECK(facts.broken().empty());
  }
  SUBCASE("nor when it was taken by force") {
    facts.history = {};
    facts.claimed(10, 1, 41, 5, 400);
    facts.let_go(100, 1, 41);
    facts.note(80, Kind::asked, 2, 9, 0, OnceEvent::by_force, 0, 500);
    facts.claimed(90, 2, 42, 80, 500);
    facts.let_go(95, 2, 42);
    facts.note(96, Kind::ended, 2, 9);
    CHECK(facts.broken().empty());
  }
  SUBCASE("nor after the first one died") {
    facts.note(89, Kind::killed, 1, 0);
    CHECK(facts.broken().empty());
  }
}

TEST_CASE("work past the end of its claim is found, unless the process slept") {
  Facts facts;
  facts.claimed(10, 1, 41, 5, 100);
  facts.let_go(150, 1, 41);
  SUBCASE("") { CHECK(facts.broken() == "I19"); }
  SUBCASE("") {
    facts.note(50, Kind::asleep, 1, 0, 0, 0, 0, 149);
    CHECK(facts.broken().empty());
  }
  SUBCASE("where the resource decides, it may") {
    facts.bounds.is_optimistic = true;
    CHECK(facts.broken().empty());
  }
}

TEST_CASE("tokens that repeat or go down are found") {
  Facts facts;
  facts.claimed(10, 1, 41, 5, 20);
  facts.let_go(15, 1, 41);
  SUBCASE("") {
    facts.claimed(40, 2, 41, 35, 60);
    facts.let_go(41, 2, 41);
  }
  SUBCASE("") {
    facts.claimed(40, 2, 40, 35, 60);
    facts.let_go(41, 2, 40);
  }
  CHECK(facts.broken() == "I19");
}

TEST_CASE("a step with two results is found") {
  Facts facts;
  facts.note(10, Kind::accepted, 1, 1, 41, 7, 5);
  facts.note(20, Kind::answered, 2, 2, 41, 8, 12);
  CHECK(facts.broken() == "I20");
}

TEST_CASE("a result that was taken after the next step had begun is found") {
  Facts facts;
  facts.claimed(10, 1, 41, 5, 30);
  facts.let_go(30, 1, 41);
  facts.claimed(50, 2, 42, 40, 90);
  facts.let_go(60, 2, 42);
  facts.note(70, Kind::accepted, 1, 1, 41, 7, 55);
  CHECK(facts.broken() == "I20");
}

TEST_CASE("an answer that goes back behind what was known is found") {
  Facts facts;
  facts.note(10, Kind::accepted, 1, 1, 41, 7, 5);
  facts.note(20, Kind::accepted, 1, 2, 42, 0, 15);
  facts.note(50, Kind::answered, 2, 2, 41, 7, 30);
  CHECK(facts.broken() == "I20");
}

TEST_CASE("what is created again although it was there is found") {
  Facts facts;
  facts.note(10, Kind::accepted, 1, 1, 41, 7, 5);
  facts.note(40, Kind::claimed, 2, 42, 42, 1, 30, 100);
  facts.let_go(50, 2, 42);
  SUBCASE("") { CHECK(facts.broken() == "I20"); }
  SUBCASE("unless it was removed") {
    facts.history = {};
    facts.note(10, Kind::accepted, 1, 1, 41, 7, 5);
    facts.note(20, Kind::accepted, 1, 3, 42, 0, 15);
    facts.note(60, Kind::claimed, 2, 44, 44, 1, 55, 100);
    facts.let_go(61, 2, 44);
    CHECK(facts.broken().empty());
  }
}

TEST_CASE("a call that ends too late, never, or for no reason is found") {
  Facts facts;
  facts.note(10, Kind::asked, 1, 1, 0, 0, 0, 100);
  SUBCASE("too late") { facts.note(120, Kind::answered, 1, 1, 41, 7, 10); }
  SUBCASE("never") { facts.note(300, Kind::killed, 2, 0); }
  SUBCASE("for no reason") {
    facts.note(5, Kind::calm, 0, 0);
    facts.note(100, Kind::ended, 1, 1, 0, 1);
  }
  CHECK(facts.broken() == "I21");
}

TEST_CASE("who died need not be answered") {
  Facts facts;
  facts.note(10, Kind::asked, 1, 1, 0, 0, 0, 100);
  facts.note(50, Kind::killed, 1, 0);
  facts.note(300, Kind::calm, 0, 0);
  CHECK(facts.broken().empty());
}

TEST_CASE("a record without its resource, and a resource without its record, are found") {
  Facts facts;
  facts.note(10, Kind::record, 0, 0, 0, 7);
  SUBCASE("") { facts.note(10, Kind::resource, 0, 0, 0, 0); }
  SUBCASE("") { facts.note(10, Kind::resource, 0, 0, 0, 8); }
  CHECK(facts.broken() == "I22");
}
