#pragma once
// A mirror: state that every instance keeps in memory and changes through Redis.
//
//   alice                      Redis                        bob     A put is one script: it appends
//     |-- put {edge-1} -------->| log 5-12, SET, publish     |      to the log, sets the keys and
//     |<-- 5-12 ----------------|--- 5-12 follows 5-11 ----->|      publishes the entry, or does
//     |                         |                            |      nothing at all.
//     |-- put {edge-2} -------->| log 5-13  --- lost --x     |      The next push reveals a lost
//     |-- put {edge-1} -------->|--- 5-14 follows 5-13 ----->|      one. If there is none, a check
//     |                         |<-- what follows 5-12? -----|      of the tail reveals it within
//     |                         |--- 5-13, 5-14 ------------>|      half a second. The log has it.
//
//   MirrorTerms terms{.prefix = "{c1}:", .channel = "foghorn:{c1}:state_updates",
//                     .types = {{"node", "nodes:"}, {"stream", "streams:"}}};
//   auto mirror = *Mirror::create(client, terms);
//   co_await mirror->ready(deadline);
//   auto snapshot = mirror->read();                        // any thread, no allocation
//   if (auto* node = snapshot->find(0, "edge-1")) use(node->value());
//   auto version = co_await mirror->put({{0, "edge-1", json}}, deadline);
//   co_await mirror->applied(*version, deadline);          // from here on read() has it
//   co_await mirror->close();                              // ~Mirror ensures that this was done
//
// Rejected: to publish "edge-1 changed" and let each instance fetch it, as older peers do. A lost
// or overtaken message then leaves a wrong value until the next change. We still hear such peers,
// and they hear us.
#include <functional>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/task.h"
#include "primitives/mirror/machine.h"
#include "redis/client.h"
#include "redis/subscriber.h"

namespace warren {

enum class MirrorHealth {
  loading,   // not complete yet: a missing entity may exist
  current,   // complete, and following the log
  degraded,  // was complete once; Redis is away or takes no writes: reads age or writes wait
};
std::string_view name(MirrorHealth health);

// Use it on the client's thread only, except for read().
class Mirror {
 public:
  // Starts loading. Returns Errc::invalid for terms that cannot work, such as a channel in another
  // slot than the keys. The client must outlive the mirror.
  static Result<std::unique_ptr<Mirror>> create(redis::Client& client, MirrorTerms terms);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // Returns what is known now, from any thread. Empty before ready(). Keeps answering while Redis
  // is away; see Snapshot::age.
  std::shared_ptr<const Snapshot> read() const { return published_.load(); }
  // Waits until read() returns another snapshot than `seen`. Also returns when the mirror is closed
  // or the caller is cancelled.
  awaitable<void> changed(std::shared_ptr<const Snapshot> seen);
  // Waits until everything has been loaded once.
  Async<> ready(Clock::time_point deadline);

  // Writes the whole batch or nothing, after everything that was put before, and returns its place
  // in the log. While Redis is away the batch waits, and a newer value of the same entity replaces
  // it. Errc::timeout: it still waits, and will be written. Errc::overloaded: too much is waiting,
  // nothing was taken. Errc::invalid: an empty batch, an unknown type, or too large. Errc::refused,
  // Errc::denied: Redis refused it permanently.
  Async<Version> put(Batch batch, Clock::time_point deadline);
  // As put(), without waiting. If Redis refuses the batch, that is logged.
  Result<> post(Batch batch);
  // Waits until read() has this change and everything before it. Errc::not_found: a failover lost
  // it. Errc::unknown_outcome: a failover may have lost it, and the log is too short to tell.
  Async<> applied(Version version, Clock::time_point deadline);

  // Sets a function that is called on the client's thread when changes that were readable here are
  // no longer part of history: a failover lost them.
  void on_history_rewritten(std::function<void(const HistoryRewritten&)> tell) {
    tell_ = std::move(tell);
  }

  MirrorHealth health() const;
  MirrorPhase phase() const { return machine_.phase(); }
  MirrorCounters counters() const { return machine_.counters(); }
  std::size_t waiting_changes() const { return machine_.outbox().changes(); }
  // Keeps the warren_mirror_… metrics up to date while the caller keeps the returned object.
  [[nodiscard]] std::shared_ptr<void> publish(Metrics& metrics) const;

  // Ends everything under way. Batches that still wait to be written are dropped, and every waiting
  // caller gets Errc::cancelled.
  awaitable<void> close();

 private:
  Mirror(redis::Client& client, MirrorTerms terms);

  awaitable<void> listen();
  awaitable<void> keep_going();
  awaitable<void> watch();
  awaitable<void> serve(mirror::Request request);
  Async<redis::Reply> ask_server(std::string server, redis::Command command);
  void go_on();
  void look_at_connection();
  Async<> wait_until(std::function<bool()> fact, Clock::time_point deadline);

  redis::Client& client_;
  mirror::Machine machine_;
  redis::Subscriber subscriber_;
  std::unique_ptr<redis::Conversation> aside_;  // to the server that receives the slot
  std::uint64_t changes_ = 0;  // of the client's servers, as last reported to the machine
  Clock::time_point began_;
  Event changed_;  // the snapshot that readers see has changed
  Event wake_;     // there may be something to send
  std::function<void(const HistoryRewritten&)> tell_;
  std::shared_ptr<const Snapshot> shown_;  // the published snapshot, for this thread
  CurrentSnapshot published_;
  bool closed_ = false;
  TaskGroup tasks_;
};

}  // namespace warren
