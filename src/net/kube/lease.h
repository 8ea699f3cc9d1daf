#pragma once
// A lease that an API server keeps (coordination.k8s.io/v1), where there is no Redis.
//
//   LeaseKeeper keeper(client, {kinds::leases, "search", "fleet-autoscale"}, "pod-7");
//   auto held = co_await keeper.look(deadline);      // every `retry`, for as long as it is wanted
//   if (*held && keeper.is_held(Clock::now())) …
//   co_await keeper.release(deadline);
//
// Every write carries the version that was read, so that of two only one succeeds. Clocks of others are
// never compared: a lease is free when nothing about it has changed for its whole duration, as we saw
// it. Who holds it stops believing so before that, counted from before his last write left.
//
// It is no fence: a server does not look at leases when something else is written. `epoch` grows with
// every change of holder, and may be written down where somebody does look.
#include <optional>

#include "net/kube/client.h"

namespace warren::kube {

struct LeaseTimes {
  std::chrono::seconds duration = 15s;
  std::chrono::seconds renew_within = 10s;  // then it is no longer believed
};

// What stands in a lease.
struct LeaseRecord {
  std::string holder = {};  // empty: nobody
  std::chrono::seconds duration = {};
  std::int64_t epoch = 0;  // transitions
  std::string version = {};
};

// Decides; opens no socket.
class LeaseMachine {
 public:
  LeaseMachine(std::string self, LeaseTimes times);

  enum class Step { create, renew, take, wait };
  // Of what was read just now; null: there is no lease yet.
  Step next(Clock::time_point now, const LeaseRecord* read);
  // The write that left then was carried out; or it was not, or nobody knows.
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
  Clock::time_point seen_at_ = {};  // since when it has not changed
  Clock::time_point held_until_ = Clock::time_point::min();
  std::int64_t epoch_ = 0;
};

class LeaseKeeper {
 public:
  // The holder is new at every start of a process.
  LeaseKeeper(Client& client, Place place, std::string holder, LeaseTimes times = {});

  // Reads it, and takes or renews it if that is possible. Whether it is ours now. Somebody who was
  // quicker is no error.
  Asked<bool> look(Clock::time_point deadline);
  // Lets the next one in at once.
  Asked<bool> release(Clock::time_point deadline);
  bool is_held(Clock::time_point now) const { return machine_.is_held(now); }
  std::int64_t epoch() const { return machine_.epoch(); }

 private:
  Client& client_;
  Place place_;
  LeaseMachine machine_;
};

}  // namespace warren::kube
