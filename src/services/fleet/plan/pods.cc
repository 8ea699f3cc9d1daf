#include "services/fleet/plan/pods.h"

namespace warren::fleet {

PodsStep next_step(const PodsSeen& seen) {
  bool is_ours = seen.highest == PodNode::draining || seen.highest == PodNode::drained;
  if (seen.wanted > seen.nodes) {
    if (is_ours) return {PodsStep::cancel_drain};
    // A pod that is there and whose node is not yet, or not any more, is on its way.
    if (seen.wanted > seen.replicas) return {PodsStep::scale, seen.wanted};
    return {};
  }
  if (seen.highest == PodNode::drained && seen.replicas > seen.wanted)
    return {PodsStep::scale, seen.replicas - 1};
  if (seen.wanted == seen.nodes || seen.replicas <= seen.wanted) return {};
  if (seen.highest == PodNode::serving) return {PodsStep::drain};
  if (seen.highest == PodNode::absent) return {PodsStep::scale, seen.replicas - 1};
  return {};
}

}  // namespace warren::fleet
