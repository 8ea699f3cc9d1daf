#pragma once
// A mirror: state that every instance has in memory, changed through Redis.
//
//   alice                      Redis                        bob     A put is one script: it appends
//     |-- put {edge-1} -------->| log 5-12, SET, publish     |      to the log, sets the keys and
//     |<-- 5-12 ----------------|--- 5-12 follows 5-11 ----->|      tells everybody, or does none
//     |                         |                            |      of it.
//     |-- put {edge-2} -------->| log 5-13  --- lost --x     |      A push that is lost is missed
//     |-- put {edge-1} -------->|--- 5-14 follows 5-13 ----->|      at the next one, or within
//     |                         |<-- what follows 5-12? -----|      half a second when there is no
//     |                         |--- 5-13, 5-14 ------------>|      next one; the log has it.
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
// Rejected: to publish "edge-1 changed" and let everybody fetch it, as older peers do. What is lost
// or overtaken is then wrong until the next change. We still hear such peers, and they hear us.
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
  loading,   // not complete yet: absent is not nonexistent
  current,   // complete, and following
  degraded,  // complete once; Redis is away or takes no writes: reads age, or writes wait
};
std::string_view name(MirrorHealth health);

// Belongs to the client's thread, but for read().
class Mirror {
 public:
  // Begins to load. Errc::invalid: terms that cannot work, such as a channel in another slot than
  // the keys. The client outlives it.
  static Result<std::unique_ptr<Mirror>> create(redis::Client& client, MirrorTerms terms);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // What is known now, from any thread. Before ready() it is empty. It goes on to answer while
  // Redis is away; see Snapshot::age.
  std::shared_ptr<const Snapshot> read() const { return published_.load(); }
  // Waits until read() gives another one than `seen`. Also returns when the mirror is closed or the
  // caller is cancelled.
  awaitable<void> changed(std::shared_ptr<const Snapshot> seen);
  // Waits until all has been loaded once.
  Async<> ready(Clock::time_point deadline);

  // Writes all of the batch or nothing, after what was put before, and says where it stands in the
  // log. While Redis is away it waits, and a newer value of the same entity takes its place.
  // Errc::timeout: it still waits, and will be written. Errc::overloaded: too much waits, nothing
  // was taken. Errc::invalid: no batch, an unknown type, or too large. Errc::refused, denied: Redis
  // said no, for good.
  Async<Version> put(Batch batch, Clock::time_point deadline);
  // As put, without waiting. A refusal by Redis is logged.
  Result<> post(Batch batch);
  // Waits until read() has this change and all before it. Errc::not_found: a failover lost it.
  // Errc::unknown_outcome: it may have, and the log is too short to tell.
  Async<> applied(Version version, Clock::time_point deadline);

  // Called on the client's thread when changes that were readable here are no longer part of
  // history: a failover lost them.
  void on_history_rewritten(std::function<void(const HistoryRewritten&)> tell) {
    tell_ = std::move(tell);
  }

  MirrorHealth health() const;
  MirrorPhase phase() const { return machine_.phase(); }
  MirrorCounters counters() const { return machine_.counters(); }
  std::size_t waiting_changes() const { return machine_.outbox().changes(); }
  // Keeps warren_mirror_… up to date for as long as the caller keeps what is returned.
  [[nodiscard]] std::shared_ptr<void> publish(Metrics& metrics) const;

  // Ends all that is under way. What still waits to be written is dropped, and whoever waits gets
  // Errc::cancelled.
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
  std::unique_ptr<redis::Conversation> aside_;  // to the server that the slot moves to
  std::uint64_t changes_ = 0;  // of the client's servers, as far as the machine knows
  Clock::time_point began_;
  Event changed_;  // what readers see
  Event wake_;     // there may be something to send
  std::function<void(const HistoryRewritten&)> tell_;
  std::shared_ptr<const Snapshot> shown_;  // what is published, for this thread
  CurrentSnapshot published_;
  bool closed_ = false;
  TaskGroup tasks_;
};

}  // namespace warren
