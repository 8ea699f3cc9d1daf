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

namespace {

template <class T>
bool fill_empty(T& into, const T& from) {
  if (into != T{} || from == T{}) return false;
  into = from;
  return true;
}

}  // namespace

bool fill_unsaid(StreamState& into, const StreamState& from) {
  // Of two origins the first one stays.
  bool filled = !from.node_id.empty() && into.node_id != from.node_id;
  if (filled) into.node_id = from.node_id;
  filled |= fill_identity(into, from);
  filled |= fill(into.buffer_state, from.buffer_state);
  filled |= fill(into.last_track_list, from.last_track_list);
  if (into.raw_details.empty() && !from.raw_details.empty()) {
    into.raw_details = from.raw_details;
    into.tracks = from.tracks;
    into.issues = from.issues;
    into.has_issues = from.has_issues;
    filled = true;
  }
  // It was live all the time.
  if (into.status == from.status && from.started_at != WallTime{} &&
      into.started_at != from.started_at) {
    into.started_at = from.started_at;
    filled = true;
  }
  filled |= fill_empty(into.others, from.others);
  return filled;
}

bool fill_unsaid(StreamInstanceState& into, const StreamInstanceState& from) {
  bool filled = fill_identity(into, from);
  filled |= fill(into.buffer_state, from.buffer_state);
  filled |= fill(into.last_track_list, from.last_track_list);
  filled |= fill_empty(into.raw_details, from.raw_details);
  filled |= fill_empty(into.others, from.others);
  if (into.status != "offline") filled |= fill_empty(into.viewers, from.viewers);
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
