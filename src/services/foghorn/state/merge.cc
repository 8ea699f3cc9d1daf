#include "services/foghorn/state/merge.h"

#include <algorithm>

namespace warren::foghorn {

namespace {

bool fill(std::string& into, const std::string& from) {
  if (!into.empty() || from.empty()) return false;
  into = from;
  return true;
}

bool fill(boost::json::object& into, const boost::json::object& from, std::string_view name) {
  const auto* theirs = from.if_contains(name);
  const auto* mine = into.if_contains(name);
  bool is_said = theirs && theirs->is_string() && !theirs->get_string().empty();
  bool is_missing = !mine || (mine->is_string() && mine->get_string().empty());
  if (!is_said || !is_missing) return false;
  into[name] = *theirs;
  return true;
}

}  // namespace

bool fill_identity(StreamState& into, const StreamState& from) {
  bool filled = fill(into.node_id, from.node_id);
  filled |= fill(into.tenant_id, from.tenant_id);
  filled |= fill(into.playback_id, from.playback_id);
  filled |= fill(into.others, from.others, "stream_id");
  return filled;
}

bool fill_identity(StreamInstanceState& into, const StreamInstanceState& from) {
  return fill(into.tenant_id, from.tenant_id);
}

bool fill_identity(NodeState& into, const NodeState& from) {
  bool filled = fill(into.tenant_id, from.tenant_id);
  filled |= fill(into.cluster_id, from.cluster_id);
  return filled;
}

ArtifactState merge_copies(const ArtifactState& ours, ArtifactState incoming,
                           const std::function<bool(const std::string& node)>& is_own) {
  std::erase_if(incoming.copies, [&](const auto& copy) { return is_own(copy.node_id); });
  for (const auto& copy : ours.copies)
    if (is_own(copy.node_id)) incoming.copies.push_back(copy);
  std::ranges::sort(incoming.copies, {}, &ArtifactCopy::node_id);
  fill(incoming.type, ours.type);
  return incoming;
}

}  // namespace warren::foghorn
