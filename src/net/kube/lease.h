#pragma once
// A lease that an API server keeps (coordination.k8s.io/v1), for installations without Redis.
//
//   LeaseKeeper keeper(client, {kinds::leases, "search", "fleet-autoscale"}, "pod-7");
//   auto held = co_await keeper.look(deadline);      // every `retry`, as long as it is wanted
//   if (*held && keeper.is_held(Clock::now())) …
//   co_await keeper.release(deadline);
//
// Every write carries the version that was read, so only one of two concurrent writes succeeds. We
// never compare our clock with another machine's: a lease is free when we have seen nothing about
// it change for its whole duration. The holder stops relying on it earlier, counted from before its
// last write was sent.
//
// It is not a fence: a server does not check leases when something else is written. `epoch` grows
// with every change of holder, and can be stored wherever it will be checked.
#include <optional>

#include "net/kube/client.h"

namespace warren::kube {

struct LeaseTimes {
  std::chrono::seconds duration = 15s;
  std::chrono::seconds renew_within = 10s;  // then we stop relying on it
};

// The contents of a lease.
struct LeaseRecord {
  std::string holder = {};  // empty if it is free
  std::chrono::seconds duration = {};
  std::int64_t epoch = 0;  // leaseTransitions
  std::string version = {};
};

// Makes the decisions. Opens no socket.
class LeaseMachine {
 public:
  LeaseMachine(std::string self, LeaseTimes times);

  enum class Step { create, renew, take, wait };
  // Decides on what was just read; null if the lease does not exist yet.
  Step next(Clock::time_point now, const LeaseRecord* read);
  // The write sent at that time succeeded. Not called if it failed or its outcome is unknown.
  void on_written(Clock::time_point sent, std::int64_t epoch);
  void on_released();

  bool is_held(Clock::time_point now) const { return now < held_until_; }
  std::int64_t epoch() const { return epoch_; }
  const std::string& self() const { return self_; }
  const LeaseTimes& times() const { return times_; }

 private:
  std::string self_;
  LeaseTimes times_;
  std::string seen_version_;
  Clock::time_point seen_at_ = {};  // when we first saw its current version
  Clock::time_point held_until_ = Clock::time_point::min();
  std::int64_t epoch_ = 0;
};

class LeaseKeeper {
 public:
  // The holder's name must be new at every start of the process.
  LeaseKeeper(Client& client, Place place, std::string holder, LeaseTimes times = {});

  // Reads the lease, and takes or renews it if possible. Returns whether we hold it. Losing a race
  // to another holder is not an error.
  Asked<bool> look(Clock::time_point deadline);
  // Lets the next holder in at once.
  Asked<bool> release(Clock::time_point deadline);
  bool is_held(Clock::time_point now) const { return machine_.is_held(now); }
  std::int64_t epoch() const { return machine_.epoch(); }

 private:
  Client& client_;
  Place place_;
  LeaseMachine machine_;
};

}  // namespace warren::kube
