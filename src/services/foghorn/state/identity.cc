// An id belongs to one process at a time: two that share one would overwrite each other's penalties
// and lead as one.
#include "base/log.h"
#include "base/uuid.h"
#include "services/foghorn/state/core.h"

namespace warren::foghorn {

namespace {

constexpr auto ttl = 5s;
constexpr auto pause = 200ms;

std::string id_key(const ClusterTerms& terms) {
  return fmt::format("{{{}}}:instance:{}", terms.cluster_id, terms.instance_id);
}

}  // namespace

LeaseRoom lease_room(const std::string& cluster_id) {
  return {fmt::format("{{{}}}:", cluster_id), fmt::format("foghorn:{{{}}}:", cluster_id)};
}

Async<> Cluster::Core::try_id() {
  if (!session_)
    session_ = std::make_unique<LeaseSession>(*client, ttl, lease_room(terms.cluster_id));
  LeaseTerms wanted{id_key(terms), fmt::format("{} {}", terms.instance_id, session_->holder())};
  wanted.ttl = ttl;  // of its own: then it needs no key but those of this cluster
  auto lease = co_await session_->try_acquire(std::move(wanted));
  if (!lease) co_return std::unexpected(lease.error());
  lease_ = *std::move(lease);
  co_return ok;
}

// A process that died holds its id for one ttl more; so whoever still has it after that is alive.
Async<> Cluster::Core::claim_id(Clock::time_point deadline) {
  if (has_id()) co_return ok;
  auto patience = std::min(deadline, Clock::now() + ttl + 1s);
  for (;;) {
    auto claimed = co_await try_id();
    if (claimed) co_return ok;
    bool is_held = claimed.error().code == Errc::held_elsewhere;
    if (Clock::now() + pause >= (is_held ? patience : deadline))
      co_return is_held ? Result<>(std::unexpected(id_is_taken())) : claimed;
    co_await sleep_for(pause);
  }
}

bool Cluster::Core::has_id() const { return lease_ && lease_->state() != LeaseState::ended; }

Error Cluster::Core::id_is_taken() const {
  return {Errc::held_elsewhere,
          fmt::format("instance id {} of cluster {} is used by another process that is alive: give "
                      "each instance a FOGHORN_INSTANCE_ID of its own",
                      terms.instance_id, terms.cluster_id)};
}

// Our own lease may outlive our belief in it; anybody else took the id when we had lost it.
Async<bool> Cluster::Core::is_id_of_another() {
  redis::Command read("GET", id_key(terms));
  auto value = co_await client->ask(std::move(read), redis::CallOptions().idempotent());
  if (!value) co_return std::unexpected(value.error());
  co_return !value->text.empty() && !value->text.ends_with(session_->holder());
}

// Who stood still, or did not reach Redis, for so long that its id went to another process, says so
// and ends: the other one has every right to it.
awaitable<void> Cluster::Core::keep_id() {
  for (;;) {
    co_await lease_->ended();
    log::warn("foghorn.instance_id_lost", "instance", terms.instance_id, "why", lease_->why().what);
    lease_.reset();
    while (!lease_) {
      auto claimed = co_await try_id();
      if (claimed) break;
      if (claimed.error().code == Errc::held_elsewhere) {
        auto is_gone = co_await is_id_of_another();
        if (is_gone && *is_gone) co_return give_up_id();
      }
      co_await sleep_for(pause);
    }
    log::info("foghorn.instance_id_regained", "instance", terms.instance_id);
  }
}

void Cluster::Core::give_up_id() {
  problem = id_is_taken();
  log::error("foghorn.instance_id_taken", "instance", terms.instance_id, "why", problem->what);
  writing_.stop();
  id_lost_.notify();
}

awaitable<Error> Cluster::Core::lost_id() {
  while (!problem) co_await id_lost_.wait();
  co_return *problem;
}

}  // namespace warren::foghorn
