#include "primitives/lease/steps.h"

#include <doctest/doctest.h>

#include "primitives/lease/scripts.h"
#include "redis/resp/refusal.h"

using namespace warren;
using redis::Reply;

namespace {

Reply number(std::int64_t value) { return {Reply::Kind::integer, value, {}, {}}; }
Reply text(std::string value) { return {Reply::Kind::string, 0, std::move(value), {}}; }
Reply list(std::vector<Reply> items) { return {Reply::Kind::array, 0, {}, std::move(items)}; }

const Reply claimed = list({number(1), number(2), number(41), number(1000)});
const Reply taken = list({number(0), number(250), number(0), number(1000), text("")});
const Reply shown = list({number(1)});

LeaseSteps steps_of(const char* what, const char* channel = "-", const char* place = "-",
                    LeaseFlaws flaws = {}) {
  LeaseMachine::Request request;
  request.keys = {"{l}", "{l}:fence", "{l}:queue"};
  request.args = {what, "p/1", "new", "300", "{l}:@400", "2", "86400000", channel, "old", place};
  return LeaseSteps(std::move(request), flaws);
}

// Names the next step: "claim acquire", "show renew", "LREM".
std::string next(const LeaseSteps& steps) {
  auto step = steps.next();
  if (!step) return "nothing";
  if (!step->script) return step->args[0];
  CHECK(step->keys.size() == 1);  // two keys might be on two servers
  bool is_claim = step->script == &scripts::claim;
  CHECK(step->keys[0] == (is_claim ? "{l}:fence" : "{l}"));
  return (is_claim ? "claim " : "show ") + step->args[0];
}

}  // namespace

TEST_CASE(
    "while a slot moves a lease is the caller's when its fence says so before and after its key") {
  auto steps = steps_of("acquire");
  CHECK(next(steps) == "claim acquire");
  steps.on_reply(claimed);
  CHECK(next(steps) == "show acquire");
  CHECK(steps.next()->args == std::vector<std::string>{"acquire", "new", "old", "300"});
  steps.on_reply(shown);
  CHECK(next(steps) == "claim renew");
  steps.on_reply(claimed);
  CHECK(next(steps) == "nothing");
  REQUIRE(steps.answer());
  CHECK(steps.answer()->items[2].number == 41);
}

TEST_CASE(
    "a lease that is taken away before it is shown is not the caller's, and not shown any more") {
  auto steps = steps_of("acquire");
  steps.on_reply(claimed);
  steps.on_reply(shown);
  steps.on_reply(taken);
  CHECK(next(steps) == "show release");
  steps.on_reply(shown);
  CHECK(next(steps) == "nothing");
  CHECK(steps.answer()->items[0].number == 0);
}

TEST_CASE("a lease that somebody holds is refused, with what its key shows") {
  auto steps = steps_of("acquire");
  steps.on_reply(taken);
  CHECK(next(steps) == "GET");
  SUBCASE("") {
    steps.on_reply(text("somebody"));
    CHECK(steps.answer()->items[4].text == "somebody");
  }
  SUBCASE("which is only told to people") {
    steps.on_reply(fail(Errc::unavailable, "not now"));
    CHECK(steps.answer()->items[4].text.empty());
  }
  CHECK(next(steps) == "nothing");
  CHECK(steps.answer()->items[1].number == 250);
}

TEST_CASE("who claimed a lease that its key shows of another gives the claim back") {
  auto steps = steps_of("acquire");
  steps.on_reply(claimed);
  steps.on_reply(list({number(0), number(120), text("somebody")}));
  CHECK(next(steps) == "claim release");
  steps.on_reply(claimed);
  CHECK(next(steps) == "nothing");
  const auto& items = steps.answer()->items;
  CHECK(items[0].number == 0);
  CHECK(items[1].number == 120);
  CHECK(items[2].number == 0);
  CHECK(items[4].text == "somebody");
}

TEST_CASE("a renewal in steps looks at the fence and at the key once") {
  auto steps = steps_of("renew");
  CHECK(next(steps) == "claim renew");
  steps.on_reply(claimed);
  CHECK(next(steps) == "show renew");
  steps.on_reply(shown);
  CHECK(next(steps) == "nothing");
  CHECK(steps.answer()->items[0].number == 1);
}

TEST_CASE("a release in steps leaves the line, hides the key and lets the fence go last") {
  auto steps = steps_of("release", "{l}:grants", "{l}:@123");
  CHECK(next(steps) == "LREM");
  CHECK(steps.next()->args.back() == "p/1 {l}:@123 {l}:grants 300 new");
  steps.on_reply(number(1));
  CHECK(next(steps) == "claim renew");
  steps.on_reply(claimed);
  CHECK(next(steps) == "show release");
  steps.on_reply(list({number(0), number(0), text("")}));  // it has expired
  CHECK(next(steps) == "claim release");
  steps.on_reply(claimed);
  CHECK(next(steps) == "nothing");
  CHECK(steps.answer()->items[0].number == 1);
}

TEST_CASE("a step that fails is the answer") {
  for (int good = 0; good < 3; ++good) {
    auto steps = steps_of("acquire");
    if (good > 0) steps.on_reply(claimed);
    if (good > 1) steps.on_reply(shown);
    steps.on_reply(fail(Errc::unknown_outcome, "lost"));
    CHECK(next(steps) == "nothing");
    REQUIRE(!steps.answer());
    CHECK(steps.answer().error().code == Errc::unknown_outcome);
  }
}

TEST_CASE("steps are needed when the keys of a script are at two servers, or went while it ran") {
  auto needed = [](const char* words) {
    return LeaseSteps::are_needed(redis::error_of({redis::Reply::Kind::error, 0, words, {}}));
  };
  CHECK(needed("TRYAGAIN Multiple keys request during rehashing of slot"));
  CHECK(
      needed("ERR Script attempted to access a non local key in a cluster node script: f, on 1."));
  CHECK(!needed("LOADING Redis is loading the dataset in memory"));
}
