#include "services/foghorn/simulate/simulate.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::simulate;

namespace {

Terms small() {
  Terms terms;
  terms.nodes = 40;
  terms.streams = 200;
  terms.viewers = 4'000;
  terms.instances = 4;
  terms.length = 300s;
  terms.faults.crowd = true;
  return terms;
}

Outcome with_seed(Terms terms, std::uint64_t seed) {
  terms.seed = seed;
  return simulate::simulate(terms);
}

}  // namespace

TEST_CASE("a seed is a whole run, and another seed is another one") {
  auto terms = small();
  terms.faults = *parse_faults("all");
  auto run = [&](std::uint64_t seed) {
    Run one{"fair", terms, with_seed(terms, seed)};
    one.terms.seed = 0;
    return report({one}) + chart({one});
  };
  CHECK(run(7) == run(7));
  CHECK(run(7) != run(8));
}

TEST_CASE("instances that share their penalties herd less than those that do not") {
  for (std::uint64_t seed : {1, 2, 3}) {
    auto terms = small();
    auto shared = with_seed(terms, seed);
    terms.shares_penalties = false;
    auto unshared = with_seed(terms, seed);
    CAPTURE(seed);
    CHECK(shared.worst_herding() < unshared.worst_herding());
    CHECK(shared.herding() < unshared.herding());
  }
}

TEST_CASE("a crowd that only the stream's holders may serve is refused; fair spreads it") {
  auto terms = small();
  terms.policy = balance::Policy::compat;
  auto compat = with_seed(terms, 1);
  terms.policy = balance::Policy::fair;
  auto fair = with_seed(terms, 1);
  CHECK(compat.refused > 100);
  CHECK(fair.refused == 0);
  CHECK(fair.herding() < compat.herding());
}

TEST_CASE(
    "an arrival that is not told to who sent the viewer counts twice, and others are refused") {
  auto terms = small();
  terms.policy = balance::Policy::compat;
  auto told = with_seed(terms, 1);
  terms.tells_arrivals = false;
  auto untold = with_seed(terms, 1);
  CHECK(untold.refused > 2 * told.refused);
}

TEST_CASE("viewers fill the cluster to sixty percent, and none get lost without faults") {
  auto terms = small();
  terms.faults = {};
  auto outcome = with_seed(terms, 1);
  CHECK(outcome.refused == 0);
  CHECK(outcome.moments.size() == 300);
  CHECK(outcome.moments.front().viewers == 0);
  auto last = outcome.moments.back();
  CHECK(last.mean == doctest::Approx(0.6).epsilon(0.1));
  CHECK(last.viewers == doctest::Approx(4'000).epsilon(0.1));
  CHECK(last.mean <= last.p99);
  CHECK(last.p99 <= last.max);
}

TEST_CASE("viewers of nodes that died are served elsewhere") {
  auto terms = small();
  terms.faults = *parse_faults("deaths");
  auto with = with_seed(terms, 1);
  terms.faults = {};
  auto without = with_seed(terms, 1);
  CHECK(with.faults.at(0).what == "2 nodes die");
  CHECK(with.refused == 0);
  CHECK(with.sent > without.sent + 50);  // they asked once more
  CHECK(with.moments.back().viewers ==
        doctest::Approx(without.moments.back().viewers).epsilon(0.02));
}

TEST_CASE("faults are named, and what is none is refused with the names there are") {
  auto some = parse_faults("deaths,crowd");
  REQUIRE(some);
  CHECK(some->deaths);
  CHECK(some->crowd);
  CHECK_FALSE(some->drain);
  CHECK(parse_faults("none"));
  auto wrong = parse_faults("deaths,fire");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().what == "use none, all, or some of deaths,silence,drain,crowd");
}

TEST_CASE("a chart has a panel with all lines for each run, and nothing that is no number") {
  auto terms = small();
  terms.length = 30s;
  Run run{"fair & <square>", terms, with_seed(terms, 1)};
  auto text = chart({run, run});
  auto count = [&](std::string_view part) {
    int found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  CHECK(count("<polyline") == 6);
  CHECK(count("fair &amp; &lt;square>") == 2);
  CHECK(count("nan") == 0);
  CHECK(count("inf") == 0);
}
