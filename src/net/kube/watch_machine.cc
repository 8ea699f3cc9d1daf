#include "net/kube/watch_machine.h"

#include <algorithm>

namespace warren::kube {

WatchMachine::WatchMachine(WatchMachineTerms terms) : terms_(terms), backoff_(terms.backoff) {}

WatchMachine::Step WatchMachine::next(Clock::time_point now) const {
  if (now < wake_at_) return {Step::wait};
  if (!version_.empty() && now < relist_at_) return {Step::watch, version_};
  return {terms_.streams ? Step::stream_list : Step::list};
}

void WatchMachine::on_listed(Clock::time_point now, std::string version) {
  version_ = std::move(version);
  is_synced_ = true;
  is_streaming_ = false;
  relist_at_ = now + terms_.relist;
}

void WatchMachine::on_began(Clock::time_point now) {
  began_at_ = now;
  said_something_ = false;
  is_streaming_ = next(now).kind == Step::stream_list;
}

void WatchMachine::on_change(std::string version) {
  said_something_ = true;
  // While the initial list is streamed, versions cannot be watched from.
  if (!is_streaming_ && !version.empty()) version_ = std::move(version);
}

void WatchMachine::on_ended(Clock::time_point now, double chance) {
  is_streaming_ = false;
  bool was_short = !said_something_ && now - began_at_ < terms_.shortest;
  if (was_short) pause(now, chance);
}

void WatchMachine::on_failed(Clock::time_point now, const Failure& why, double chance) {
  bool was_streaming = next(now).kind == Step::stream_list;
  is_streaming_ = false;
  if (why.reason == Reason::expired) {
    // The first time, list again at once: this is normal after a long silence.
    bool had_version = !version_.empty();
    version_.clear();
    if (had_version) return;
  }
  // A server that does not support it answers "sendInitialEvents is forbidden". One whose etcd is
  // too old stays silent.
  bool cannot = why.reason == Reason::invalid || why.code == Errc::timeout;
  if (was_streaming && cannot) {
    terms_.streams = false;
    if (why.reason == Reason::invalid) return;
  }
  pause(now, chance);
  if (why.retry_after) wake_at_ = std::max(wake_at_, now + *why.retry_after);
}

void WatchMachine::pause(Clock::time_point now, double chance) {
  wake_at_ = now + backoff_.on_failure(now, chance);
}

}  // namespace warren::kube
