#pragma once
// The shared connection: a pipeline on a socket, reconnected whenever it breaks.
//
//   callers ─▶ Pipeline ─▶ flush ─▶ socket      Throughput depends on when we write. One write per
//                 ▲                    │        command costs a system call each; one write per
//                 └──── read loop ◀────┘        batch makes client and server take turns. So we
//                                               write at once when nothing is in flight; while
//                                               answers are being delivered, whenever a part of the
//                                               window has come together; and always at the end of
//                                               a batch.
//
// Calls may be submitted at any time. Without a connection they wait for one until their deadline.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/task.h"
#include "redis/connection/conversation.h"
#include "redis/connection/pipeline.h"
#include "redis/settings.h"

namespace warren::redis {

// Finds the server and connects to it: a fixed address, or the current primary.
class Connector {
 public:
  virtual ~Connector() = default;
  virtual Async<std::unique_ptr<Conversation>> connect(Clock::time_point deadline) = 0;
};

class Link;

// Reports the events of a connection to its topology.
class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  // Must complete the call or submit it somewhere.
  virtual void on_refused(Link& link, Call& call, Reply error) = 0;
  virtual void on_connected(Link&) {}
  // An attempt failed, or a connection broke.
  virtual void on_broken(Link&, const Error&) {}
};

struct LinkCounters {
  std::uint64_t connects = 0, connect_failures = 0;
};

// Decides whether to poll for an answer briefly before sleeping. If the server is close and has a
// core of its own, waking up takes longer than the answer. After each poll in vain, the next one
// waits longer.
class Vigil {
 public:
  static constexpr auto length = 100us;
  bool may_begin() {
    if (skip_ > 0) --skip_;
    return skip_ == 0;
  }
  void paid() { vain_ = 0; }
  void was_in_vain() { skip_ = 1 << std::min(vain_++, 12); }

 private:
  int vain_ = 0, skip_ = 0;
};

class Link final : PipelineOwner {
 public:
  // All of these outlive the link.
  Link(asio::any_io_executor executor, const Settings& settings, Connector& connector,
       LinkOwner& owner);
  ~Link();

  // Takes the call and completes it later, never before this returns.
  void submit(Call& call);
  // Breaks the connection, because the server is no longer the right one, and finds the right one.
  void reconnect(std::string why);
  // Takes all calls that are not sent yet, so that they can be routed again.
  void take_waiting(CallList& into) { pipeline_.take_waiting(into); }

  // Runs until cancelled, then completes every call with Errc::cancelled.
  awaitable<void> run();

  bool is_connected() const { return transport_ != nullptr; }
  // The address of the current or last connection.
  const Address& address() const { return address_; }
  // Why there is no connection. Empty while connected, and before the first attempt.
  const std::optional<Error>& problem() const { return problem_; }
  std::size_t pending() const { return pipeline_.waiting() + pipeline_.in_flight(); }
  const Pipeline& pipeline() const { return pipeline_; }
  const LinkCounters& counters() const { return counters_; }

 private:
  awaitable<void> stay_connected();
  awaitable<Error> serve();
  awaitable<Error> read_loop();
  awaitable<Transport::Done> receive(std::span<char> space);
  awaitable<void> flush_loop();
  awaitable<Error> keep_alive();
  awaitable<void> watch_deadlines();
  void flush();
  void break_connection(Error why);

  void on_refused(Call& call, Reply error) override;
  void on_push(Reply push) override;
  Error why_waiting() const override;

  class Ping;
  const Settings& settings_;
  Connector& connector_;
  LinkOwner& owner_;
  Pipeline pipeline_;
  Timer deadline_timer_;
  Event flush_wanted_;
  bool wants_flush_ = false;
  bool write_blocked_ = false;
  bool write_closed_ = false;
  bool dispatching_ = false;
  bool stopped_ = false;
  std::size_t flush_at_ = 1;
  Vigil vigil_;
  std::unique_ptr<Transport> transport_;
  Address address_;
  std::optional<Error> problem_;
  std::unique_ptr<Ping> ping_;
  LinkCounters counters_;
};

// The pause between attempts: doubling, bounded, and randomised so that a thousand clients do not
// reconnect in the same millisecond.
class Backoff {
 public:
  Backoff(Clock::duration least, Clock::duration most) : least_(least), most_(most) {}
  // `random` is uniform in [0, 1).
  Clock::duration next(double random);
  void reset() { step_ = 0; }

 private:
  Clock::duration least_, most_;
  int step_ = 0;
};

double random_unit();

}  // namespace warren::redis
