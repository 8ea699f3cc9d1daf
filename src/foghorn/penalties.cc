// What redirects cost the nodes is told to the other instances, so that they do not all send their
// viewers to the node that was idle a moment ago.
#include "foghorn/core.h"

namespace warren::foghorn {

namespace {

constexpr auto refresh = 10s;   // so that others know that we live
constexpr auto patience = 35s;  // for those of others

}  // namespace

void Cluster::Core::share_penalties(Clock::time_point now) {
  add_up_penalties(now);
  auto sums = viewers.pending_sums();
  bool is_due = !sums.empty() && now - shared_at_ > refresh;
  if (sums == shared_penalties_.nodes && !is_due) return;
  shared_at_ = now;
  shared_penalties_ = {terms.instance_id, WallClock::now(), std::move(sums)};
  mark({Kind::penalty, terms.instance_id});
}

void Cluster::Core::take_penalties(PenaltyState incoming, Clock::time_point now) {
  if (incoming.instance_id == terms.instance_id) {
    // Of whoever had this id before us.
    if (shared_penalties_.nodes.empty()) mark({Kind::penalty, terms.instance_id});
    return;
  }
  auto id = incoming.instance_id;
  peers_.insert_or_assign(id, PeerPenalties{std::move(incoming), now});
  add_up_penalties(now);
}

void Cluster::Core::forget_penalties(const std::string& instance) {
  if (peers_.erase(instance) > 0) add_up_penalties(Clock::now());
}

void Cluster::Core::add_up_penalties(Clock::time_point now) {
  if (peers_.empty() && penalised_.empty()) return;
  std::map<std::string, std::uint64_t> sums;
  for (const auto& node : penalised_) sums[node] = 0;
  for (const auto& [instance, penalties] : peers_) {
    if (now - penalties.seen_at > patience) continue;
    for (const auto& [node, bandwidth] : penalties.state.nodes) {
      auto& sum = sums[node];
      sum = sum + bandwidth < sum ? ~std::uint64_t{0} : sum + bandwidth;
    }
  }
  publish();
  for (const auto& [node, sum] : sums) {
    if (auto penalty = model.penalty(node)) penalty->peer_bandwidth = sum;
    if (sum > 0)
      penalised_.insert(node);
    else
      penalised_.erase(node);
  }
}

}  // namespace warren::foghorn
