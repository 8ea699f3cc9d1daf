// What nodes say before all is loaded. It counts at once: an instance that starts while Redis is
// away answers from it. When all is loaded it is said once more, on top of that.
#include <algorithm>

#include "services/foghorn/state/core.h"

namespace warren::foghorn {

void Cluster::Core::note_early(const std::string& node, const NodeReport& said,
                               const std::string& host) {
  if (is_loaded()) return;
  auto& word = early_[node];
  add(word.said, said);
  if (!host.empty()) word.host = host;
  word.is_known = true;
  word.lists_artifacts = word.lists_artifacts || said.artifacts;
}

bool Cluster::Core::lists_artifacts(const std::string& node) const {
  auto early = early_.find(node);
  return early != early_.end() && early->second.lists_artifacts;
}

// False: the node has turned to another instance since, which wrote this.
bool Cluster::Core::take_early(NodeState& incoming) {
  auto& word = early_.at(incoming.node_id);
  word.is_known = true;
  auto record = *model.node(incoming.node_id);
  auto& local = record.state;
  if (incoming.last_update > local.last_update) return false;
  set_said(incoming, word.said);
  if (!word.host.empty()) incoming.host = word.host;
  incoming.cluster_id = incoming.cluster_id.empty() ? local.cluster_id : incoming.cluster_id;
  incoming.is_healthy = local.is_healthy;
  incoming.is_stale = local.is_stale;
  incoming.last_heartbeat = local.last_heartbeat;
  incoming.last_update = local.last_update;
  incoming.owner_epoch = std::max(local.owner_epoch, incoming.owner_epoch + 1);
  local = std::move(incoming);
  mark({Kind::node, local.node_id});
  model.put_node(std::move(record));
  return true;
}

void Cluster::Core::merge_early() {
  for (const auto& [node, word] : std::exchange(early_, {})) {
    // Nobody knows a node that only gave signs of life: it is told to introduce itself.
    if (!word.is_known) {
      forget_node(node);
      continue;
    }
    const auto* record = model.node(node);
    if (!record || !record->is_own) continue;
    auto carried = model.carried(node).streams;  // a copy: streams may go
    for (const auto& stream : carried)
      if (model.instance(stream, node)->status == "offline") settle_stream(stream);
  }
}

}  // namespace warren::foghorn
