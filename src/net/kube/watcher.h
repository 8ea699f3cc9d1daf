#pragma once
// A copy of all objects of one kind in one namespace, kept by one watch however many look at it.
//
//   Watcher pods(client, {kinds::pods, "sandboxes"}, {.labels = "app=openhands-runtime"});
//   tasks.start("kube.watch", pods.run());
//   auto seen = pods.find("openhands-runtime-7");       // of the cache: maybe late
//
// What is read here may be older than what the server has, also right after a write of one's own. Before
// something is destroyed ask the server: Client::get, and a precondition with what it said.
#include <optional>
#include <random>

#include "net/kube/cache.h"
#include "net/kube/client.h"
#include "net/kube/watch_machine.h"

namespace warren::kube {

// What a cache says.
struct Cached {
  ObjectRef object;     // null: there was none
  bool is_synced;       // false: not all objects were seen yet, and "none" says nothing
  Clock::duration age;  // since the watch was last heard
};

class Watcher {
 public:
  using OnDifference = std::function<void(const Difference&)>;

  Watcher(Client& client, Place place, Selection selection = {}, WatchMachineTerms terms = {});

  // Until it is cancelled. Never gives up.
  awaitable<void> run();

  Cached find(std::string_view name) const;
  std::vector<ObjectRef> all() const { return cache_.all(); }
  bool is_synced() const { return machine_.is_synced(); }
  // Called for every difference, in order; it must not wait.
  void on_difference(OnDifference hears) { hears_.push_back(std::move(hears)); }
  // Until something changes, or the deadline.
  awaitable<void> changed(Clock::time_point deadline) { return changed_.wait(deadline); }

  struct Counters {
    std::uint64_t lists = 0, streamed_lists = 0, watches = 0, changes = 0, failures = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  Asked<bool> list();  // each of these true: it ended in good order
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
