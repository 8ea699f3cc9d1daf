// Who dials and which channel stays, without a channel.
#include "services/foghorn/federation/dialling.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

using namespace warren;
using namespace warren::federation;

namespace {

constexpr FencingToken older{1, 1}, newer{1, 2};

// Two clusters that dial each other at once: x is dialled by the smaller one, y by the larger one.
struct Meeting {
  struct Channel {
    Greeted as;
    bool is_over = false;
  };
  enum class Fact { smaller_hears_y, larger_hears_x, smaller_is_answered, larger_is_answered };

  Channel x{{Dialler::smaller, older}}, y{{Dialler::larger, older}};
  Channel *at_smaller = nullptr, *at_larger = nullptr;
  bool x_was_heard = false, y_was_heard = false;

  bool hear(Channel*& there, Channel& next) {
    if (next.is_over) return false;
    auto standing = there && !there->is_over ? std::optional(there->as) : std::nullopt;
    next.is_over = !may_stay(next.as, standing, "peer");
    if (next.is_over) return false;
    if (there) there->is_over = true;
    there = &next;
    return true;
  }
  // False: nobody answers what was not heard.
  bool happens(Fact fact) {
    switch (fact) {
      case Fact::smaller_hears_y:
        y_was_heard = true;
        hear(at_smaller, y);
        return true;
      case Fact::larger_hears_x:
        x_was_heard = true;
        hear(at_larger, x);
        return true;
      case Fact::smaller_is_answered:
        if (x_was_heard) hear(at_smaller, x);
        return x_was_heard;
      case Fact::larger_is_answered:
        if (y_was_heard) hear(at_larger, y);
        return y_was_heard;
    }
    return false;
  }
};

}  // namespace

TEST_CASE("the smaller id dials at once, the larger one after a moment without a channel") {
  FederationTerms terms;
  terms.larger_dials_after = 2s;
  auto alone_since = Clock::time_point(1h);
  CHECK(dialler_of("a", "b") == Dialler::smaller);
  CHECK(dialler_of("b", "a") == Dialler::larger);
  CHECK(dials_from(Dialler::smaller, alone_since, terms) == alone_since);
  CHECK(dials_from(Dialler::larger, alone_since, terms) == alone_since + 2s);
}

TEST_CASE(
    "of two channels that arise at once both sides keep the one that the smaller id dialled") {
  using enum Meeting::Fact;
  std::array facts{smaller_hears_y, larger_hears_x, smaller_is_answered, larger_is_answered};
  int orders = 0;
  do {
    Meeting meeting;
    bool is_possible = std::ranges::all_of(facts, [&](auto fact) { return meeting.happens(fact); });
    if (!is_possible) continue;
    ++orders;
    CHECK(meeting.at_smaller == &meeting.x);
    CHECK(meeting.at_larger == &meeting.x);
    CHECK(!meeting.x.is_over);
    CHECK(meeting.y.is_over);
  } while (std::ranges::next_permutation(facts).found);
  CHECK(orders == 6);
}

TEST_CASE("one side alone that can dial has the channel") {
  Meeting meeting;
  meeting.happens(Meeting::Fact::smaller_hears_y);
  meeting.happens(Meeting::Fact::larger_is_answered);
  CHECK(meeting.at_smaller == &meeting.y);
  CHECK(meeting.at_larger == &meeting.y);
  CHECK(!meeting.y.is_over);
}

TEST_CASE(
    "a newer leader takes the place of an older one, whoever dials, and never the other way") {
  for (auto by : {Dialler::smaller, Dialler::larger})
    for (auto there : {Dialler::smaller, Dialler::larger}) {
      CHECK(may_stay({by, newer}, Greeted{there, older}, "b"));
      auto refused = may_stay({by, older}, Greeted{there, newer}, "b");
      REQUIRE(!refused);
      CHECK(refused.error().code == Errc::refused);
      CHECK(refused.error().what == "a newer leader of b is here");
    }
}

TEST_CASE("who dials again has lost the channel that he had, and is taken in") {
  CHECK(may_stay({Dialler::smaller, older}, Greeted{Dialler::smaller, older}, "b"));
  CHECK(may_stay({Dialler::larger, older}, Greeted{Dialler::larger, older}, "b"));
  CHECK(may_stay({Dialler::larger, older}, std::nullopt, "b"));
  auto refused = may_stay({Dialler::larger, older}, Greeted{Dialler::smaller, older}, "b");
  REQUIRE(!refused);
  CHECK(refused.error().what == "there is a channel to b already");
}
