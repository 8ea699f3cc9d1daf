#pragma once
// How many fetches may run at once: so many of this node, so many of one host, one of a repository.
//
//   limit 4, of one host 2
//   running   a/1 a/2 b/1            A host that hangs costs its own slots until their deadlines. Who
//   waiting   a/3 a/4 c/1            comes after it in line, for another host, is let past.
//                     ^ is next
//
// For the thread of the executor alone.
#include <list>
#include <map>
#include <set>

#include "base/task.h"

namespace warren::fleet {

struct SlotLimits {
  std::size_t running = 4;
  std::size_t of_one_host = 2;
  std::size_t waiting = 1024;
};

class FetchSlots;

// One of them, until this goes.
class Slot {
 public:
  Slot() = default;  // none
  Slot(Slot&& other) noexcept
      : slots_(std::exchange(other.slots_, nullptr)),
        host_(std::move(other.host_)),
        repo_(std::move(other.repo_)) {}
  Slot& operator=(Slot&&) = delete;
  ~Slot();

 private:
  friend class FetchSlots;
  Slot(FetchSlots& slots, std::string host, std::string repo)
      : slots_(&slots), host_(std::move(host)), repo_(std::move(repo)) {}

  FetchSlots* slots_ = nullptr;
  std::string host_, repo_;
};

class FetchSlots {
 public:
  FetchSlots(asio::any_io_executor executor, SlotLimits limits)
      : executor_(std::move(executor)), limits_(limits) {}
  ~FetchSlots();
  FetchSlots(const FetchSlots&) = delete;
  FetchSlots& operator=(const FetchSlots&) = delete;

  // In order of arrival, among those that the limits let through. Errc::timeout;
  // Errc::overloaded: too many wait.
  Async<Slot> acquire(std::string host, std::string repo, Clock::time_point deadline);

  std::size_t running() const { return repos_.size(); }
  std::size_t waiting() const { return waiters_.size(); }

 private:
  friend class Slot;
  struct Waiter {
    std::string host, repo;
    Event granted;
    bool is_granted = false;
  };
  using Place = std::list<Waiter>::iterator;
  // Takes it out of the line, with what it was granted, however its coroutine ends.
  struct InLine;

  bool fits(const std::string& host, const std::string& repo) const;
  void take(const std::string& host, const std::string& repo);
  void give_back(const std::string& host, const std::string& repo);
  void grant();

  asio::any_io_executor executor_;
  SlotLimits limits_;
  std::list<Waiter> waiters_;  // the first is the oldest
  std::map<std::string, std::size_t> hosts_;
  std::set<std::string> repos_;
};

}  // namespace warren::fleet
