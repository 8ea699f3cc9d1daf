// How much one node may have here. What it says beyond that is refused, so that one node that is broken, or
// means harm, costs neither the others their memory nor Redis its own.
#include "services/foghorn/state/core.h"

namespace warren::foghorn {

// For one stream more. Those that ended make room: a node that sends events alone never lists what it has.
Result<> Cluster::Core::make_room(const std::string& node, const std::string& stream) {
  const auto& carried = model.carried(node);
  if (carried.streams.size() < most_streams || carried.streams.contains(stream)) return ok;
  auto ended = carried.ended;  // a copy: it shrinks
  for (const auto& each : ended) drop_instance(each, node);
  if (carried.streams.size() < most_streams) return ok;
  return fail(
      Errc::overloaded,
      "stream {} of node {} is not taken: the node has {} streams already, and that is the most",
      stream, node, carried.streams.size());
}

bool Cluster::Core::has_room(const std::string& node, const std::string& content_id) const {
  const auto& artifacts = model.carried(node).artifacts;
  return artifacts.size() < most_copies || artifacts.contains(content_id);
}

// After each stream that this node leaves, the oldest that it left goes when there are too many.
void Cluster::Core::forget_left(const std::string& node) {
  while (model.left().count(node) > most_left) {
    auto stream = *model.left().oldest(node);  // a copy: it goes
    forget_stream(stream);
  }
}

}  // namespace warren::foghorn
