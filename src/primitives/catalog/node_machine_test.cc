#include "primitives/catalog/node_machine.h"

#include <doctest/doctest.h>

namespace warren {
namespace {

constexpr auto start = Clock::time_point(1000s);
using Intent = NodeMachine::Intent;

NodeMachine joined_at(Clock::time_point sent, Clock::time_point answered) {
  NodeMachine node(10s);
  REQUIRE(node.next(sent) == Intent::join);
  node.on_joined(answered, NodeSession("n1/1"));
  return node;
}

}  // namespace

TEST_CASE("a node joins first, then beats every fifth of its ttl, one request at a time") {
  NodeMachine node(10s);
  CHECK(node.state(start) == NodeState::joining);
  CHECK_FALSE(node.may_serve(start));
  CHECK(node.next(start) == Intent::join);
  CHECK_FALSE(node.next(start + 5s));
  CHECK(node.wake_at() == Clock::time_point::max());
  node.on_joined(start + 1s, NodeSession("n1/1"));
  CHECK(node.session() == "n1/1");
  CHECK(node.wake_at() == start + 2s);
  CHECK_FALSE(node.next(start + 1999ms));
  CHECK(node.next(start + 2s) == Intent::beat);
  node.on_beat(start + 2s, ok);
  CHECK(node.wake_at() == start + 4s);
}

TEST_CASE(
    "what a node serves ends before the catalog lets go of it, counted from before the request") {
  auto node = joined_at(start, start + 4s);
  CHECK(node.deadline() < start + 10s);
  CHECK(node.deadline() > start + 9s);
  CHECK(node.may_serve(start + 9s));
  CHECK_FALSE(node.may_serve(start + 10s));
  CHECK(node.state(start + 10s) == NodeState::silent);

  // The same with every beat.
  node = joined_at(start, start);
  CHECK(node.next(start + 2s) == Intent::beat);
  node.on_beat(start + 6s, ok);
  CHECK(node.deadline() < start + 12s);
  CHECK(node.deadline() > start + 11s);
}

TEST_CASE(
    "a node whose beats fail claims nothing new, then serves nothing, and asks all the while") {
  auto node = joined_at(start, start);
  auto now = start + 2s;
  int asked = 0;
  for (; now < start + 20s; now = node.wake_at()) {
    REQUIRE(node.next(now) == Intent::beat);
    node.on_beat(now, fail(Errc::unavailable, "away"));
    ++asked;
    CHECK(node.may_claim(now) == (now < start + 6666ms + 1ms));
    CHECK(node.may_serve(now) == (now < node.deadline()));
  }
  CHECK(asked > 20);
  CHECK(node.session() == "n1/1");

  // The catalog has not noticed: all of it is ours again.
  CHECK(node.next(now) == Intent::beat);
  node.on_beat(now, ok);
  CHECK(node.state(now) == NodeState::held);
  CHECK(node.lives() == 1);
}

TEST_CASE("after a beat that was not answered the catalog has to answer before the next one") {
  auto node = joined_at(start, start);
  CHECK_FALSE(node.needs_proof());
  REQUIRE(node.next(start + 2s) == Intent::beat);
  node.on_beat(start + 5s, fail(Errc::timeout, "silence"));
  CHECK(node.needs_proof());
  REQUIRE(node.next(start + 6s) == Intent::beat);
  node.on_beat(start + 6s, ok);
  CHECK_FALSE(node.needs_proof());
  // A joining node has nothing to prolong.
  REQUIRE(node.next(start + 8s) == Intent::beat);
  node.on_beat(start + 11s, fail(Errc::timeout, "silence"));
  REQUIRE(node.next(start + 12s) == Intent::beat);
  node.on_beat(start + 12s, fail(Errc::lease_lost, "over"));
  CHECK_FALSE(node.needs_proof());
  REQUIRE(node.next(start + 12s) == Intent::join);
  node.on_joined(start + 12s, NodeSession("n1/2"));
  CHECK_FALSE(node.needs_proof());
}

TEST_CASE("a node that the catalog has given up joins anew, as another") {
  auto node = joined_at(start, start);
  CHECK(node.next(start + 2s) == Intent::beat);
  node.on_beat(start + 2s, fail(Errc::lease_lost, "over"));
  CHECK(node.state(start + 2s) == NodeState::joining);
  CHECK_FALSE(node.may_serve(start + 2s));
  CHECK(node.next(start + 2s) == Intent::join);
  node.on_joined(start + 2s, NodeSession("n1/2"));
  CHECK(node.lives() == 2);

  node.on_lost(start + 3s, "n1/1");  // late news of the first life
  CHECK(node.session() == "n1/2");
  node.on_lost(start + 3s, "n1/2");
  CHECK(node.next(start + 3s) == Intent::join);
}

TEST_CASE("an answer to a beat of a life that is over says nothing about the next one") {
  auto node = joined_at(start, start);
  CHECK(node.next(start + 2s) == Intent::beat);
  node.on_lost(start + 2s, "n1/1");
  CHECK_FALSE(node.next(start + 2s));  // the beat is still under way
  node.on_beat(start + 3s, ok);
  CHECK(node.session().empty());
  CHECK(node.next(start + 3s) == Intent::join);
}

TEST_CASE("what has changed about a node is told at once, also while a beat is under way") {
  auto node = joined_at(start, start);
  node.hurry(start + 1s);
  CHECK(node.wake_at() == start + 1s);
  CHECK(node.next(start + 1s) == Intent::beat);
  node.hurry(start + 1500ms);
  CHECK_FALSE(node.next(start + 1500ms));
  node.on_beat(start + 1600ms, ok);
  CHECK(node.next(start + 1600ms) == Intent::beat);
  node.on_beat(start + 1700ms, ok);
  CHECK(node.wake_at() == start + 3600ms);
}

}  // namespace warren
