// How much one node may have here, and all of them together. What it says beyond that is refused,
// so that one node that is broken, or means harm, costs neither the others their memory nor Redis
// its own.
#include "services/foghorn/state/core.h"

namespace warren::foghorn {

// A node that is not known yet.
Result<> Cluster::Core::admit(const std::string& node) const {
  if (model.node(node) || model.nodes().size() < terms.limits.nodes) return ok;
  return fail(Errc::overloaded,
              "node {} is not taken: the cluster has {} nodes already, and that is the most", node,
              model.nodes().size());
}

// For one stream more. Those that ended make room: a node that sends events alone never lists what
// it has.
Result<> Cluster::Core::make_room(const std::string& node, const std::string& stream) {
  if (auto admitted = admit(node); !admitted) return admitted;
  const auto& carried = model.carried(node);
  const auto most = terms.limits.node_streams;
  if (carried.streams.size() >= most && !carried.streams.contains(stream)) {
    auto ended = carried.ended;  // a copy: it shrinks
    for (const auto& each : ended) drop_instance(each, node);
    if (carried.streams.size() >= most)
      return fail(Errc::overloaded,
                  "stream {} of node {} is not taken: the node has {} streams already, and that is "
                  "the most",
                  stream, node, carried.streams.size());
  }
  if (has_room_for_stream(stream)) return ok;
  return fail(Errc::overloaded,
              "stream {} of node {} is not taken: the cluster has {} streams already, and that is "
              "the most",
              stream, node, model.streams().size());
}

bool Cluster::Core::has_room_for_stream(const std::string& stream) const {
  return model.stream(stream) || model.streams().size() < terms.limits.streams;
}

Result<> Cluster::Core::has_room(const std::string& node, const std::string& content_id) const {
  const auto& artifacts = model.carried(node).artifacts;
  if (artifacts.contains(content_id)) return ok;
  if (artifacts.size() >= terms.limits.node_artifacts)
    return fail(Errc::overloaded,
                "artifact {} of node {} is not taken: the node has {} artifacts already, and that "
                "is the most",
                content_id, node, artifacts.size());
  if (model.artifact(content_id) || model.artifacts().size() < terms.limits.artifacts) return ok;
  return fail(Errc::overloaded,
              "artifact {} of node {} is not taken: the cluster has {} artifacts already, and that "
              "is the most",
              content_id, node, model.artifacts().size());
}

// After each stream that this node leaves, the oldest that it left goes when there are too many.
void Cluster::Core::forget_left(const std::string& node) {
  while (model.left().count(node) > terms.limits.node_left) {
    auto stream = *model.left().oldest(node);  // a copy: it goes
    forget_stream(stream);
  }
}

}  // namespace warren::foghorn
