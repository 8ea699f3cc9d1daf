#pragma once
// What to do next so that a StatefulSet has as many pods as nodes are wanted. Opens no socket.
//
//   wanted < nodes:   drain the node of the highest pod ──> it has no rows ──> one replica less
//                     │                                                        (that pod goes)
//                     └── more are wanted meanwhile ──> it claims again
//
// A StatefulSet always ends its highest pod, so that is the one that hands over first. What somebody
// else drains is not ours: it is neither taken away nor woken.
#include <cstddef>
#include <string>

namespace warren::fleet {

// The node of one pod, as the catalog knows it.
enum class PodNode {
  absent,  // it has not joined, or its lease has ended
  serving,
  draining,  // we asked it to, and it has rows
  drained,   // and it has none
  drained_by_other,
};

struct PodsSeen {
  std::size_t replicas = 0;  // that the StatefulSet is to have
  std::size_t nodes = 0;     // that live and do not drain
  std::size_t wanted = 0;
  PodNode highest = PodNode::absent;
};

struct PodsStep {
  enum Kind { none, scale, drain, cancel_drain } kind = none;
  std::size_t replicas = 0;  // for scale

  bool operator==(const PodsStep&) const = default;
};

PodsStep next_step(const PodsSeen& seen);

}  // namespace warren::fleet
