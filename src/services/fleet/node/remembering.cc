// Snapshots of what is in memory, and memory from snapshots.
#include "base/log.h"
#include "services/fleet/node/node.h"

namespace warren::fleet {

namespace {

// Under way, beside the segments themselves.
constexpr std::uint64_t piece_bytes = 1u << 20;

Result<HandOver> facts_in(const Snapshots* snapshots, const std::string& repo) {
  return snapshots->facts_of(repo);
}
Result<Held> loaded(const Snapshots* snapshots, const std::string& repo, std::uint64_t most) {
  return snapshots->load(repo, most);
}
Result<> saved(const Snapshots* snapshots, const std::string& repo, const Held& held) {
  return snapshots->save(repo, held);
}

}  // namespace

// Into memory, from where it is served as anything that was left there.
awaitable<void> FleetNode::recall(Owned& owned) {
  if (!snapshots_ || held_.contains(owned.repo)) co_return;
  auto repo = owned.repo;
  auto facts = co_await on_pool(savers_, facts_in, snapshots_.get(), repo);
  if (!facts && facts.error().code == Errc::not_found) co_return;
  if (!facts) co_return refuse_snapshot(repo, facts.error());
  if (facts->reindex != owned.spec.reindex) co_return;
  auto bytes = facts->bytes();
  if (!shelf_.reserve(repo, bytes + piece_bytes)) co_return;  // it may fit when it is built
  auto step = owned.journey.step("fleet.recall");
  auto begin = Clock::now();
  auto held = co_await on_pool(savers_, loaded, snapshots_.get(), repo, bytes);
  end_step(step, held);
  if (!held) co_return refuse_snapshot(repo, held.error());
  snapshots_read_.add();
  log::info("fleet.snapshot_read", "repo", repo, "bytes", bytes, "time_ms",
            std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count());
  held_.try_emplace(repo, *std::move(held));
}

void FleetNode::refuse_snapshot(const std::string& repo, const Error& error) {
  log::warn("fleet.snapshot_refused", "repo", repo, "why", error.what);
  snapshots_refused_.add();
  if (error.code == Errc::invalid) forget_snapshot(repo);
}

awaitable<void> FleetNode::remember(Owned& owned) {
  auto repo = owned.repo;
  auto found = held_.find(repo);
  if (!snapshots_ || found == held_.end() || !found->second.has_index) co_return;
  auto held = found->second;  // also when it is evicted meanwhile
  if (held.memory_bytes() <= snapshots_->terms().over_bytes) co_return;
  auto now = Clock::now();
  auto [last, is_first] = remembered_.try_emplace(repo, now);
  if (!is_first && now - last->second < snapshots_->terms().pause) co_return;
  last->second = now;
  auto bytes = held.memory_bytes();
  auto step = owned.journey.step("fleet.snapshot");
  auto kept = co_await on_pool(savers_, saved, snapshots_.get(), repo, std::move(held));
  end_step(step, kept);
  if (!kept) {
    log::warn("fleet.snapshot_not_written", "repo", repo, "why", kept.error().what);
    co_return;
  }
  snapshots_written_.add();
  log::info("fleet.snapshot_written", "repo", repo, "bytes", bytes, "time_ms",
            std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - now).count());
}

// On the pool, since the disk may be slow; the destructor waits for it.
void FleetNode::forget_snapshot(const std::string& repo) {
  remembered_.erase(repo);
  if (snapshots_)
    asio::post(savers_, [snapshots = snapshots_.get(), repo] { snapshots->remove(repo); });
}

}  // namespace warren::fleet
