#include "services/fleet/plan/pods.h"

#include <doctest/doctest.h>

using namespace warren::fleet;

TEST_CASE("replicas are added at once, and not for nodes that are on their way") {
  CHECK(next_step({.replicas = 2, .nodes = 2, .wanted = 4, .highest = PodNode::serving}) ==
        PodsStep{PodsStep::scale, 4});
  CHECK(next_step({.replicas = 4, .nodes = 2, .wanted = 4, .highest = PodNode::absent}) ==
        PodsStep{});
  // A pod that died comes back by itself.
  CHECK(next_step({.replicas = 4, .nodes = 3, .wanted = 4, .highest = PodNode::serving}) ==
        PodsStep{});
  CHECK(next_step({.replicas = 4, .nodes = 3, .wanted = 3, .highest = PodNode::absent}) ==
        PodsStep{});
  CHECK(next_step({.replicas = 0, .nodes = 0, .wanted = 1}) == PodsStep{PodsStep::scale, 1});
}

TEST_CASE("a replica is taken away only after its node has handed over") {
  PodsSeen seen{.replicas = 3, .nodes = 3, .wanted = 2, .highest = PodNode::serving};
  CHECK(next_step(seen) == PodsStep{PodsStep::drain});
  // A node that drains is no longer counted.
  seen.nodes = 2;
  seen.highest = PodNode::draining;
  CHECK(next_step(seen) == PodsStep{});
  seen.highest = PodNode::drained;
  CHECK(next_step(seen) == PodsStep{PodsStep::scale, 2});
  seen.replicas = 2;
  seen.highest = PodNode::serving;
  CHECK(next_step(seen) == PodsStep{});
}

TEST_CASE("one at a time, also when far fewer are wanted") {
  PodsSeen seen{.replicas = 5, .nodes = 4, .wanted = 1, .highest = PodNode::draining};
  CHECK(next_step(seen) == PodsStep{});
  seen.highest = PodNode::drained;
  CHECK(next_step(seen) == PodsStep{PodsStep::scale, 4});
}

TEST_CASE("a pod without a node is taken away without a drain") {
  CHECK(next_step({.replicas = 4, .nodes = 3, .wanted = 2, .highest = PodNode::absent}) ==
        PodsStep{PodsStep::scale, 3});
}

TEST_CASE("when more are wanted again, the node that drains claims again") {
  PodsSeen seen{.replicas = 3, .nodes = 2, .wanted = 3, .highest = PodNode::drained};
  CHECK(next_step(seen) == PodsStep{PodsStep::cancel_drain});
  seen.highest = PodNode::draining;
  seen.wanted = 5;
  CHECK(next_step(seen) == PodsStep{PodsStep::cancel_drain});
}

TEST_CASE("what somebody else drains is neither taken away nor woken") {
  PodsSeen seen{.replicas = 3, .nodes = 2, .wanted = 3, .highest = PodNode::drained_by_other};
  CHECK(next_step(seen) == PodsStep{});
  seen.wanted = 1;
  CHECK(next_step(seen) == PodsStep{});
}
