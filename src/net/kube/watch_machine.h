#pragma once
// Decides what to ask an API server for, so that a copy of some of its objects stays right. Opens no
// socket.
//
//   list ──────────> watch from its version ──> the server ended it: watch on from the last version
//     ^                │                          (that of an event, or of a bookmark)
//     │                ├── 410: later changes are forgotten ────┐
//     │                ├── it failed: the same after a pause    │   Sooner or later everything is
//     └── about every quarter of an hour ──────────────────────┘   listed again, so that a wrong
//                                                                  copy does not stay wrong forever
//
// If the server supports it, the list arrives as the start of the watch (sendInitialEvents), which
// does not need memory for all of it at once. A server that refuses is not asked for this again.
//
// It never gives up: a copy that no longer gets updates is worse than one that is late.
#include <string>

#include "net/kube/backoff.h"
#include "net/kube/failure.h"

namespace warren::kube {

struct WatchMachineTerms {
  BackoffTerms backoff = {};
  std::chrono::milliseconds relist = 15min;
  // A watch that ends sooner without an event counts as failed: restarting at once would hammer the
  // server.
  std::chrono::milliseconds shortest = 1s;
  bool streams = true;
};

class WatchMachine {
 public:
  explicit WatchMachine(WatchMachineTerms terms = {});

  struct Step {
    enum Kind {
      wait,         // until wake_at()
      list,         // list everything, then call on_listed()
      stream_list,  // a watch that sends everything first
      watch,        // starting after `version`
    } kind;
    std::string version = {};
  };
  Step next(Clock::time_point now) const;
  Clock::time_point wake_at() const { return wake_at_; }

  // The whole list was applied, as of that version.
  void on_listed(Clock::time_point now, std::string version);
  void on_began(Clock::time_point now);  // a watch, with or without the initial list
  // After a change or a bookmark was applied.
  void on_change(std::string version);
  // The watch is over, properly or not. `chance` is between 0 and 1.
  void on_ended(Clock::time_point now, double chance);
  void on_failed(Clock::time_point now, const Failure& why, double chance);

  bool is_synced() const { return is_synced_; }  // it was complete at least once
  // A watch ends by then, to make way for a list.
  Clock::time_point relist_at() const { return relist_at_; }

 private:
  void pause(Clock::time_point now, double chance);

  WatchMachineTerms terms_;
  Backoff backoff_;
  std::string version_;  // empty: list first
  bool is_synced_ = false;
  bool is_streaming_ = false;  // the initial list is being streamed
  bool said_something_ = false;
  Clock::time_point began_at_ = {}, wake_at_ = Clock::time_point::min();
  Clock::time_point relist_at_ = Clock::time_point::max();
};

}  // namespace warren::kube
