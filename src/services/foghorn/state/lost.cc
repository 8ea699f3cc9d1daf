// What Redis lost of other instances, and they have yet to write again.
//
// When Redis comes back empty, or a failover loses its last writes, each instance writes again what
// its own nodes told it. At a thousand nodes that takes seconds, and who erased meanwhile what Redis
// does not have would answer 404 for every stream that only its peers hear of. So what was lost of
// peers is kept until its value comes in again, or it ends:
//
//   a node            when it was silent for too long, as any node
//   what it carries   restore_time after the loss, but not before its node came in again or ended
//   the rest          restore_time after the loss
//
// Nobody can tell what was lost from what was deleted at the same time, as Redis has neither. So a
// deletion in that time has an effect here only then.
#include <algorithm>

#include "base/log.h"
#include "services/foghorn/state/core.h"

namespace warren::foghorn {

bool Cluster::Core::is_of_peers(const EntityKey& key) const {
  auto is_own = [this](std::string_view node) {
    const auto* record = model.node(node);
    return record && record->is_own;
  };
  switch (key.kind) {
    case Kind::node:
      return model.node(key.first) && !is_own(key.first);
    case Kind::stream: {
      const auto* record = model.stream(key.first);
      return record && record->is_known && !is_carried_here(*record);
    }
    case Kind::instance:
      return model.instance(key.first, key.second) && !is_own(key.second);
    case Kind::artifact: {
      const auto* artifact = model.artifact(key.first);
      return artifact && !std::ranges::all_of(artifact->copies, is_own, &ArtifactCopy::node_id);
    }
    case Kind::mode:
    case Kind::penalty:
      return false;
  }
  return false;
}

bool Cluster::Core::keeps(const EntityKey& key) {
  if (is_new_history() && is_of_peers(key)) kept_.insert(key);
  return kept_.contains(key);
}

// Whether there is still somebody who may write it again.
bool Cluster::Core::is_awaited(const EntityKey& key) const {
  auto is_kept = [this](const std::string& node) { return kept_.contains({Kind::node, node}); };
  switch (key.kind) {
    case Kind::node: {
      const auto* record = model.node(key.first);
      return record && !record->is_own && !record->is_stale();
    }
    case Kind::stream: {
      const auto* record = model.stream(key.first);
      return record && std::ranges::any_of(record->instances,
                                           [&](const auto& each) { return is_kept(each.first); });
    }
    case Kind::instance:
      return is_kept(key.second);
    case Kind::artifact: {
      const auto* artifact = model.artifact(key.first);
      return artifact && std::ranges::any_of(artifact->copies, is_kept, &ArtifactCopy::node_id);
    }
    case Kind::mode:
    case Kind::penalty:
      return false;
  }
  return false;
}

void Cluster::Core::end_kept(Clock::time_point now) {
  if (kept_.empty()) return;
  // While Redis is away, nobody can write anything again.
  if (is_rewritten_ || mirror->health() != MirrorHealth::current)
    kept_until_ = now + terms.restore_time;
  if (now < kept_until_) return;
  std::size_t ended = 0;
  // Nodes come first, so that what a node carried ends with it.
  for (auto next = kept_.begin(); next != kept_.end();) {
    if (is_awaited(*next)) {
      ++next;
      continue;
    }
    auto key = *next;
    next = kept_.erase(next);
    if (seen_->find(static_cast<std::size_t>(key.kind), key.id())) continue;
    take_gone(key);
    ++ended;
  }
  kept_until_ = now + 1s;  // what is left waits for its nodes: there is no hurry to look again
  if (ended == 0) return;
  log::info("foghorn.lost_values_dropped", "count", ended, "kept", kept_.size());
  changed();
}

}  // namespace warren::foghorn
