// What redirects cost the nodes is told to the other instances, so that they do not all send their
// viewers to the node that was idle a moment ago.
#include "services/foghorn/state/core.h"

namespace warren::foghorn {

namespace {

constexpr auto refresh = 10s;   // so that others know that we live
constexpr auto patience = 35s;  // for those of others
constexpr auto told_for =
    1s;  // of an arrival, so that nobody misses it who reads every third value
constexpr std::size_t most_arrivals = 5'000;

}  // namespace

// Whoever sent him counts him as expected until he hears of it, or for 30 s.
void Cluster::Core::tell_arrival(const std::string& correlation_id) {
  if (!client || correlation_id.size() != 36) return;
  if (arrivals_.size() >= most_arrivals) arrivals_.pop_front();
  arrivals_.emplace_back(Clock::now(), correlation_id);
}

void Cluster::Core::share_penalties(Clock::time_point now) {
  add_up_penalties(now);
  PenaltyState next{terms.instance_id, WallClock::now(), viewers.pending_sums()};
  while (!arrivals_.empty() && now - arrivals_.front().first > told_for) arrivals_.pop_front();
  for (const auto& [at, id] : arrivals_) next.arrivals.push_back(id);
  bool is_due = !next.nodes.empty() && now - shared_at_ > refresh;
  bool is_same =
      next.nodes == shared_penalties_.nodes && next.arrivals == shared_penalties_.arrivals;
  if (is_same && !is_due) return;
  shared_at_ = now;
  shared_penalties_ = std::move(next);
  mark({Kind::penalty, terms.instance_id});
}

void Cluster::Core::take_penalties(PenaltyState incoming, Clock::time_point now) {
  if (incoming.instance_id == terms.instance_id) {
    // Of whoever had this id before us.
    if (shared_penalties_.is_empty()) mark({Kind::penalty, terms.instance_id});
    return;
  }
  for (const auto& arrival : incoming.arrivals) viewers.connected_elsewhere(now, arrival);
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
