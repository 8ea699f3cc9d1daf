// An id belongs to one process at a time: two that share one would overwrite each other's penalties
// and lead as one.
#include "base/log.h"
#include "base/uuid.h"
#include "services/foghorn/state/core.h"

namespace warren::foghorn {

namespace {

constexpr auto ttl = 5s;
constexpr auto pause = 200ms;

}  // namespace

LeaseRoom lease_room(const std::string& cluster_id) {
  return {fmt::format("{{{}}}:", cluster_id), fmt::format("foghorn:{{{}}}:", cluster_id)};
}

// A process that died holds its id for one ttl more; so whoever still has it after that is alive.
Async<> Cluster::Core::claim_id(Clock::time_point deadline) {
  if (lease_ && lease_->is_held()) co_return ok;
  if (!session_)
    session_ = std::make_unique<LeaseSession>(*client, ttl, lease_room(terms.cluster_id));
  auto patience = std::min(deadline, Clock::now() + ttl + 1s);
  for (;;) {
    LeaseTerms wanted{fmt::format("{{{}}}:instance:{}", terms.cluster_id, terms.instance_id),
                      fmt::format("{} {}", terms.instance_id, session_->holder())};
    wanted.ttl = ttl;  // of its own: then it needs no key but those of this cluster
    auto lease = co_await session_->try_acquire(std::move(wanted));
    if (lease) {
      lease_ = *std::move(lease);
      problem.reset();
      co_return ok;
    }
    bool is_held = lease.error().code == Errc::held_elsewhere;
    if (Clock::now() + pause >= (is_held ? patience : deadline)) {
      if (!is_held) co_return std::unexpected(lease.error());
      co_return fail(Errc::held_elsewhere,
                     "instance id {} of cluster {} is used by another process that is alive: give "
                     "each instance a FOGHORN_INSTANCE_ID of its own",
                     terms.instance_id, terms.cluster_id);
    }
    co_await sleep_for(pause);
  }
}

awaitable<void> Cluster::Core::keep_id() {
  for (;;) {
    co_await lease_->ended();
    log::warn("foghorn.instance_id_lost", "instance", terms.instance_id, "why", lease_->why().what);
    lease_.reset();
    for (bool was_told = false; !lease_;) {
      auto claimed = co_await claim_id(Clock::now() + 10s);
      if (claimed || claimed.error().code != Errc::held_elsewhere) continue;
      problem = claimed.error();
      if (!std::exchange(was_told, true))
        log::error("foghorn.instance_id_taken", "instance", terms.instance_id, "why",
                   claimed.error().what);
    }
    log::info("foghorn.instance_id_regained", "instance", terms.instance_id);
  }
}

}  // namespace warren::foghorn
