#pragma once
// A copy of all objects of one kind in one namespace, kept by one watch for any number of readers.
//
//   Watcher pods(client, {kinds::pods, "sandboxes"}, {.labels = "app=openhands-runtime"});
//   tasks.start("kube.watch", pods.run());
//   auto seen = pods.find("openhands-runtime-7");       // from the cache: may be out of date
//
// The cache may be older than the server's data, even right after our own write. Before you destroy
// something, ask the server with Client::get, and use its answer as a precondition.
#include <optional>
#include <random>

#include "net/kube/cache.h"
#include "net/kube/client.h"
#include "net/kube/watch_machine.h"

namespace warren::kube {

// An answer from a cache.
struct Cached {
  ObjectRef object;     // null if there was none
  bool is_synced;       // if false, a missing object may still exist
  Clock::duration age;  // since the watch last received something
};

class Watcher {
 public:
  using OnDifference = std::function<void(const Difference&)>;

  Watcher(Client& client, Place place, Selection selection = {}, WatchMachineTerms terms = {});

  // Runs until cancelled. Never gives up.
  awaitable<void> run();

  Cached find(std::string_view name) const;
  std::vector<ObjectRef> all() const { return cache_.all(); }
  bool is_synced() const { return machine_.is_synced(); }
  // Called for every difference, in order. It must not block.
  void on_difference(OnDifference hears) { hears_.push_back(std::move(hears)); }
  // Waits until something changes, or until the deadline.
  awaitable<void> changed(Clock::time_point deadline) { return changed_.wait(deadline); }

  struct Counters {
    std::uint64_t lists = 0, streamed_lists = 0, watches = 0, changes = 0, failures = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  Asked<bool> list();  // these return true if they ended properly
  Asked<bool> watch(WatchMachine::Step step);
  void apply(Change change);
  void end_initial(const Object& bookmark);
  void tell(const std::optional<Difference>& difference);
  std::chrono::seconds watch_time();
  double chance();

  Client& client_;
  Place place_;
  Selection selection_;
  WatchMachine machine_;
  Cache cache_;
  Event changed_;
  std::vector<OnDifference> hears_;
  std::minstd_rand random_;
  Clock::time_point heard_at_ = {};
  Counters counters_;
};

}  // namespace warren::kube
