#pragma once
// Instances that share one Redis: each has a name that no other has, and a workspace of its own.
//
//   up ──▶ join ──▶ starting ──▶ announce ──▶ running ──▶ leave
//           │                                    └─ crash: the lock expires after 60 s, the name is
//           └─ the name is taken,                   free, and the entry is stale: it blocks nobody;
//              or the workspace                     at once where the process is known to be dead;
//                                                   its board stays, and is in the list of those
//
// The name is a lease, and the entry in the list is written by the script that grants it, so nobody
// ever sees one without the other, and of two who want the same workspace one is refused.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "primitives/lease/lease.h"
#include "redis/subscriber.h"
#include "services/instance/entry.h"

namespace warren {

struct InstanceTerms {
  std::string name;        // empty: default-1, default-2, …; a number is never used twice
  std::string workspace;   // an absolute path without symbolic links
  bool is_forced = false;  // although somebody else has the workspace
  int pid = 0;
  std::string host = {}, user = {};
  std::chrono::milliseconds ttl = 60s;
  // The name counts as taken only when every replica has it, except those that most sentinels
  // consider down: then it survives a failover. Without replicas this costs nothing.
  bool is_replicated = true;
};

class Instance {
 public:
  const std::string& name() const { return name_; }
  const InstanceEntry& entry() const { return entry_; }
  // While this holds, the name is ours; what is written under it goes through Lease::guarded().
  Lease& lease() { return lease_; }
  const Lease& lease() const { return lease_; }

  // Keeps the lock's value fresh; returns when the name is lost, and why.
  Async<> keep();
  // Where somebody may ask it to stop, and returns when that was done. What is asked while the
  // connection is away is lost; who asks sees that nothing happens.
  std::string control_channel() const { return keys_.control(name_); }
  awaitable<void> stop_requested(redis::Subscriber& orders);
  // It is ready, and its page is here.
  Async<> announce(std::string url);
  // Takes it off the list and frees the name. What is on its board stays.
  Async<> leave();

 private:
  friend class Registry;
  Instance(redis::Client& client, InstanceKeys keys, std::string name, InstanceEntry entry,
           Lease lease)
      : client_(&client),
        keys_(std::move(keys)),
        name_(std::move(name)),
        entry_(std::move(entry)),
        lease_(std::move(lease)) {}
  redis::Client* client_;
  InstanceKeys keys_;
  std::string name_;
  InstanceEntry entry_;
  Lease lease_;
};

// stale: its lock is gone. unlisted: it has a lock and no entry, or another program runs it.
enum class InstanceState { starting, running, stale, unlisted };
std::string_view name(InstanceState state);

struct ListedInstance {
  std::string name;
  InstanceState state = InstanceState::stale;
  InstanceEntry entry;
};

class Registry {
 public:
  // The client outlives it.
  Registry(redis::Client& client, std::string prefix);
  const InstanceKeys& keys() const { return keys_; }
  // For the session that a name is taken in: LeaseSession session(client, ttl, registry.room()).
  LeaseRoom room() const { return {keys_.start(), keys_.start()}; }

  // Errc::held_elsewhere: the name, or the workspace, is in use; Errc::invalid: the name. Whoever is
  // known to be dead is in nobody's way: see bury().
  Async<Instance> join(LeaseSession& session, InstanceTerms terms);
  // The same, as soon as the instance that has this name leaves or dies, of which `orders` hears.
  // Errc::cancelled: the name was asked to stop meanwhile. While the name is free but cannot be taken
  // for a reason that may pass, it tries again, and reports each new cause once: to the log and `tell`.
  using Tell = std::function<void(const Error& why)>;
  Async<Instance> stand_by(LeaseSession& session, InstanceTerms terms, redis::Subscriber& orders,
                           Tell tell = {});
  // Removes the entry of one whose lock is gone; says whether there was one.
  Async<bool> forget(std::string name);
  // Takes the name from one whose process is known to be dead (is_known_dead), without waiting for
  // its lock to expire. False: meanwhile somebody else has it, or it has expired.
  Async<bool> bury(ListedInstance dead);
  // What a lock without an entry tells of who has it. Errc::not_found: there is no such lock.
  Async<ListedInstance> unlisted(std::string name);
  // Removes a lock that never expires and that nobody changed since it was this. False: it has.
  Async<bool> break_lock(std::string name, std::string value);
  // Asks an instance, wherever it runs, to leave.
  Async<> ask_to_stop(ListedInstance instance);
  // This run of it holds neither its entry nor its lock any more.
  Async<bool> is_gone(const ListedInstance& instance);
  // By name. Entries that nobody can read are left out, and logged.
  Async<std::vector<ListedInstance>> list();
  // The same, and all that ran before and were not destroyed: with the entry of the last run, and
  // as stale. An older Warren keeps no such list, so what it left is there only while it is listed.
  Async<std::vector<ListedInstance>> boards();

 private:
  Async<std::vector<ListedInstance>> read(std::string list);
  Async<bool> take_away(std::string name, std::string shown);
  Async<bool> bury_if_dead(ListedInstance holder);
  Async<ListedInstance> holder_of(std::string name);
  Async<Instance> take(LeaseSession& session, std::string name, const InstanceTerms& terms);
  awaitable<void> withdraw(std::string name, std::string run_id);
  Async<Instance> take_over(LeaseSession& session, std::string name, const InstanceTerms& terms);
  awaitable<Clock::duration> until_free(std::string name);

  redis::Client& client_;
  InstanceKeys keys_;
};

}  // namespace warren
