#pragma once
// Once: something is created exactly once, and every other caller attaches to it.
//
//   alice            Redis             bob     Bob waits for a message, and no longer than until
//     |-- obtain ------>|                |     alice counts as dead. Then bob takes over, under a
//     |<-- token 41 ----|<---- obtain ---|     higher token, and a late result of alice is refused.
//     |  (creates)      |--- busy: 41 -->|     What alice made may still be there: bob learns that,
//     |-- 41: created ->|                |     and the resource itself, which has one name,
//     |<-- ok ----------|--- created --->|     decides.
//
//      absent ──▶ creating ──▶ created ──▶ pausing ──▶ paused ──▶ …      each arrow is one script,
//         ▲          └──▶ failed (until retry_after) ──▶ creating        under a token that only
//         └────────────────── removed                                   grows
//
//   OnceTerms terms{.prefix = "openhands:", .show = as_json};
//   Once once(client, terms);                                   // one per process
//   auto spawn = [this](OnceClaim& claim) { return spawn_pod(claim); };
//   auto made = co_await once.obtain(name, spawn, deadline);    // created, or attached
//   OnceStep pausing{.status = "pausing", .from = {"created"}};
//   auto paused = co_await once.change(name, pausing, pause, deadline);
//   co_await once.close();                                      // ~Once ensures that this was done
//
// Redis makes waiting cheap and chooses the process that works. It may be wiped, or fail over to a
// server that has not heard of the last grants. So it must be safe to do the work twice: derive the
// resource's name from `name`, and use a resource that refuses a second one. The protocol:
// docs/protocols/once.md. The promises: docs/guarantees.md.
#include <map>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/task.h"
#include "primitives/once/machine.h"
#include "primitives/once/terms.h"
#include "redis/client.h"
#include "redis/subscriber.h"

namespace warren {

class Once;

// The right to take one step, as the work sees it. If the right is lost, the work is cancelled.
// The next process learns of it, and finds what it has done by then.
class OnceClaim {
 public:
  OnceClaim(const OnceClaim&) = delete;
  OnceClaim& operator=(const OnceClaim&) = delete;

  const std::string& name() const;
  // For resources that remember the newest token they saw. Zero while Redis has not answered
  // (optimistic).
  FencingToken token() const;
  // No other process is granted the step before then. If the deadline is unknown, it is in the
  // past: begin nothing then that the resource would not refuse.
  Clock::time_point deadline() const;
  // The record from which the step began, or nullopt if there was none.
  const std::optional<OnceRecord>& record() const;
  // Set if an earlier attempt did not finish, or another program left something.
  const std::optional<OnceEarlier>& earlier() const;
  // Records what is about to be done, before it is done, for the process that may take over: an id,
  // a step. At most 4 kB. Returns Errc::lease_lost if another process has the step by now.
  Async<> note(std::string text);
  // If the work fails: no process tries again before this time has passed.
  void retry_after(std::chrono::milliseconds time);

 private:
  friend class Once;
  OnceClaim(Once& once, OnceMachine::Id id) : once_(once), id_(id) {}
  Once& once_;
  OnceMachine::Id id_;
  std::optional<std::chrono::milliseconds> retry_after_{};
};

// A function that calls a coroutine, not a coroutine lambda with captures. It is kept while the
// coroutine runs. Every waiting caller, here and in other processes, gets its error with the code.
using OnceWork = std::function<Async<OnceLeft>(OnceClaim&)>;

class Once {
 public:
  // The client must outlive this. The owner that others read in the lock begins with `holder`,
  // followed by something that is new at every start.
  Once(redis::Client& client, OnceTerms terms, std::string holder = {});
  ~Once();
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;

  // Returns the record, whatever its status is. If there is none, `work` creates it, unless another
  // process already does. If several callers of a process ask at the same time, one request goes to
  // Redis, with the work of the first caller.
  // A caller that finds another process at a step waits for the result. If that process dies,
  // `work` continues from there, even if that step was a different one: see OnceClaim::earlier.
  // Errors: the work's own, until retry_after has passed; refused if the record was removed while
  // it was being created; timeout at the deadline; unavailable if Redis is away; invalid.
  Async<OnceOutcome> obtain(std::string name, OnceWork work, Clock::time_point deadline);
  // Takes a step from the existing record. If another process is taking the same step already,
  // joins it. If the step may not begin from what is there, returns that as attached. A step that
  // fails leaves the record as it was. Errc::not_found: there is no record.
  Async<OnceOutcome> change(std::string name, OnceStep step, OnceWork work,
                            Clock::time_point deadline);

  // Returns what is there now, also while a step is under way or after one has failed.
  // Errc::not_found: there is nothing.
  Async<OnceRecord> get(std::string name, Clock::time_point deadline);
  // Replaces exactly this version of a record, in one step, or removes it if `left` has no status.
  // Returns what is there now. Errc::lease_lost: there is another version, or none, or a step is
  // under way.
  Async<OnceRecord> replace(OnceRecord record, OnceLeft left, Clock::time_point deadline);
  Async<> forget(OnceRecord record, Clock::time_point deadline);
  // Keeps this version for another record_ttl. Errc::lease_lost as for replace(): it never brings
  // back a record that is gone.
  Async<> refresh(OnceRecord record, Clock::time_point deadline);

  // Calls `action` after the record of any name has changed, and with an empty name if changes may
  // have been missed. Stops when the caller drops the returned object. A record of more than 8 kB
  // comes without its bytes.
  [[nodiscard]] std::shared_ptr<void> on_change(std::function<void(const OnceRecord&)> action);

  // Cancels all work. Steps under way are free for other processes at once, if Redis hears of it
  // within a second. Waiting callers get Errc::cancelled.
  awaitable<void> close();

  const OnceTerms& terms() const { return machine_.terms(); }
  const std::string& holder() const { return machine_.holder(); }
  const OnceMachine& machine() const { return machine_; }
  // Keeps the warren_once_… metrics up to date while the caller keeps the returned object.
  [[nodiscard]] std::shared_ptr<void> publish(Metrics& metrics) const;

 private:
  friend class OnceClaim;
  // What this process wants, shared by all its callers that ask for the same.
  struct Flight {
    OnceMachine::Id id;
    OnceWork work;
    Event changed;
    std::size_t callers = 0;
    bool is_at_work = false;
    std::optional<Result<OnceOutcome>> outcome{};
  };
  using FlightPtr = std::shared_ptr<Flight>;  // equal owners: its callers, and its work
  struct Caller;

  Async<OnceOutcome> fly(std::string name, std::optional<OnceStep> step, OnceWork work,
                         Clock::time_point deadline);
  Result<FlightPtr> board(std::string name, std::optional<OnceStep> step, OnceWork work);
  void pump();
  void on_flight(FlightPtr flight);
  awaitable<void> work(FlightPtr flight);
  awaitable<void> stopped(FlightPtr flight);
  awaitable<void> send(OnceMachine::Request request);
  Async<redis::Reply> run(OnceMachine::Request request);
  Async<OnceState> ask(OnceMachine::Request request, Clock::time_point deadline);
  void tell(const OnceRecord& record);
  void follow_topology();
  awaitable<void> keep_time();
  awaitable<void> listen();
  awaitable<void> ask_when_subscribed();
  awaitable<void> watch_topology();

  redis::Client& client_;
  OnceMachine machine_;
  redis::Subscriber subscriber_;
  Timer timer_;
  std::map<OnceMachine::Id, FlightPtr> flights_;
  std::map<std::string, FlightPtr> joinable_;  // by what is asked for
  std::vector<std::weak_ptr<std::function<void(const OnceRecord&)>>> watchers_;
  std::uint64_t changes_seen_ = 0;
  std::size_t callers_ = 0;
  Event idle_;  // nothing is under way, or no caller waits
  bool closed_ = false;
  TaskGroup tasks_;
};

}  // namespace warren
