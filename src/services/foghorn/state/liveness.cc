// Who is silent, since when, and when that is long enough.
//
// Instances agree on what was reported, not on what time it is: silence is measured here, from when
// a value was seen to change. So clocks that differ make no node stale.
#include <algorithm>

#include "base/log.h"
#include "services/foghorn/state/core.h"

namespace warren::foghorn {

void Cluster::Core::look_for_silence(Clock::time_point now) {
  std::vector<std::string> silent;
  for (const auto& [id, record] : model.nodes())
    if (!record.is_stale() && now - record.heard_at > terms.stale_after) silent.push_back(id);
  for (const auto& id : silent) {
    auto record = *model.node(id);
    record.is_silent = true;
    record.stale_since = now;
    model.put_node(std::move(record));
    log::warn("foghorn.node_silent", "node", id);
  }
  if (now - settled_at_ > 5s) {
    settled_at_ = now;
    viewers.expire(now);
    viewer_average = model.average_viewer();
  }
  if (!silent.empty()) changed();
}

bool Cluster::Core::is_carried(const StreamRecord& stream) const {
  return std::ranges::any_of(stream.instances, [this](const auto& each) {
    const auto* carrier = model.node(each.first);
    return each.second.status != "offline" && carrier && !carrier->is_stale();
  });
}

bool Cluster::Core::is_carried_here(const StreamRecord& stream) const {
  return std::ranges::any_of(stream.instances, [this](const auto& each) {
    const auto* carrier = model.node(each.first);
    return carrier && carrier->is_own;
  });
}

// Of nodes that are gone; one that says more than "normal" waits for its node.
std::vector<std::string> Cluster::Core::idle_modes() const {
  std::vector<std::string> idle;
  for (const auto& [node, mode] : model.modes())
    if (mode.mode == balance::NodeMode::normal && !model.node(node)) idle.push_back(node);
  return idle;
}

void Cluster::Core::sweep(Clock::time_point now) {
  // Who does not hear from Redis does not know who is dead.
  if (mirror && mirror->health() != MirrorHealth::current) return;
  std::vector<std::string> dead, over;
  for (const auto& [id, record] : model.nodes())
    if (record.is_stale() && now - record.stale_since > terms.evict_after) dead.push_back(id);
  for (const auto& id : dead) {
    log::info("foghorn.node_evicted", "node", id);
    forget_node(id);
  }
  std::vector<std::string> abandoned;
  for (const auto& [name, record] : model.streams()) {
    bool is_settled = now - record.changed_at > 2 * terms.sweep_interval;
    if (record.is_known && record.state.status == "live" && is_settled && !is_carried(record))
      abandoned.push_back(name);
    bool is_idle = record.is_known && record.instances.empty() && record.state.status != "live";
    if (is_idle && now - record.changed_at > terms.evict_after) over.push_back(name);
  }
  // Its last two carriers may have let it go at the same time, each counting on the other.
  for (const auto& name : abandoned) settle_stream(name);
  for (const auto& name : over) forget_stream(name);
  for (const auto& node : idle_modes()) {
    model.erase_mode(node);
    mark({Kind::mode, node});
  }
  // Instances and copies of nodes that went while we did not look.
  for (const auto& node : model.without_node()) forget_node(node);
  std::vector<std::string> gone;
  for (const auto& [instance, penalties] : peers_)
    if (now - penalties.seen_at > 1min) gone.push_back(instance);
  for (const auto& instance : gone) {
    forget_penalties(instance);
    mark({Kind::penalty, instance});
  }
  changed();
}

}  // namespace warren::foghorn
