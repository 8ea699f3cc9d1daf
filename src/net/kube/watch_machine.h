#pragma once
// What to ask an API server for, so that a copy of some of its objects stays right. Opens no socket.
//
//   list ──────────> watch from its version ──> the server ended it: watch on from the last version
//     ^                │                          (that of an event, or of a bookmark)
//     │                ├── 410: what came after is forgotten ──┐
//     │                ├── it failed: the same after a while   │   Sooner or later everything is
//     └── every quarter of an hour or so ──────────────────────┘   listed anew: a copy that went
//                                                                  wrong must not stay so for ever
//
// Where the server can, the list comes as the beginning of the watch (sendInitialEvents): it then
// needs no memory for all of it. One that refuses is not asked so again.
//
// It never gives up: a copy that is no longer told of changes is worse than one that is late.
#include <string>

#include "net/kube/backoff.h"
#include "net/kube/failure.h"

namespace warren::kube {

struct WatchMachineTerms {
  BackoffTerms backoff = {};
  std::chrono::milliseconds relist = 15min;
  // A watch that ends sooner, with nothing said, is no watch: who asks again at once would hammer.
  std::chrono::milliseconds shortest = 1s;
  bool streams = true;
};

class WatchMachine {
 public:
  explicit WatchMachine(WatchMachineTerms terms = {});

  struct Step {
    enum Kind {
      wait,         // until wake_at()
      list,         // all of it, and tell on_listed()
      stream_list,  // a watch that sends all of it first
      watch,        // from `version` on
    } kind;
    std::string version = {};
  };
  Step next(Clock::time_point now) const;
  Clock::time_point wake_at() const { return wake_at_; }

  // All of it was applied, as of that version.
  void on_listed(Clock::time_point now, std::string version);
  void on_began(Clock::time_point now);  // a watch, or one that streams
  // Of a change or a bookmark, after it was applied.
  void on_change(std::string version);
  // The watch is over: in good order, or not. `chance` is between 0 and 1.
  void on_ended(Clock::time_point now, double chance);
  void on_failed(Clock::time_point now, const Failure& why, double chance);

  bool is_synced() const { return is_synced_; }  // it was once complete
  // A watch ends by then, for a list.
  Clock::time_point relist_at() const { return relist_at_; }

 private:
  void pause(Clock::time_point now, double chance);

  WatchMachineTerms terms_;
  Backoff backoff_;
  std::string version_;  // empty: list first
  bool is_synced_ = false;
  bool is_streaming_ = false;  // the list that is under way
  bool said_something_ = false;
  Clock::time_point began_at_ = {}, wake_at_ = Clock::time_point::min();
  Clock::time_point relist_at_ = Clock::time_point::max();
};

}  // namespace warren::kube
