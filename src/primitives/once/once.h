#pragma once
// Once: something is created exactly once, and everybody else attaches to it.
//
//   alice            Redis             bob     Bob waits for a message, and until the moment at which
//     |-- obtain ------>|                |     alice counts as dead: then he takes over, under a
//     |<-- token 41 ----|<---- obtain ---|     higher token. What alice brings after that is refused.
//     |  (creates)      |--- busy: 41 -->|     What she made may still be there: bob is told, and the
//     |-- 41: created ->|                |     resource itself, which has one name, decides.
//     |<-- ok ----------|--- created --->|
//
//      absent ──▶ creating ──▶ created ──▶ pausing ──▶ paused ──▶ …      each arrow one script, under a
//         ▲          └──▶ failed (until retry_after) ──▶ creating        token that only grows
//         └────────────────── removed
//
//   OnceTerms terms{.prefix = "openhands:", .show = as_json};
//   Once once(client, terms);                                   // one per process
//   auto spawn = [this](OnceClaim& claim) { return spawn_pod(claim); };
//   auto made = co_await once.obtain(name, spawn, deadline);    // created, or attached
//   OnceStep pausing{.status = "pausing", .from = {"created"}};
//   auto paused = co_await once.change(name, pausing, pause, deadline);
//   co_await once.close();                                      // ~Once ensures that this was done
//
// Redis makes waiting cheap and chooses who works; it may be wiped, and fail over to a server that has
// not heard of the last grants. So the work must be such that it can be done twice: a name that follows
// from `name`, and a resource that refuses a second one. docs/protocols/once.md has the protocol,
// docs/guarantees.md what is promised.
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

// The right to take one step, as the work sees it. The work is cancelled when the right is lost: what it
// did by then is for whoever comes next, who is told.
class OnceClaim {
 public:
  OnceClaim(const OnceClaim&) = delete;
  OnceClaim& operator=(const OnceClaim&) = delete;

  const std::string& name() const;
  // For resources that remember the newest they saw. Zero while Redis has not answered (optimistic).
  FencingToken token() const;
  // Nobody else is granted the step before. In the past when that is not known: begin nothing then
  // that the resource would not refuse.
  Clock::time_point deadline() const;
  // The record from which the step began; nothing when there was none.
  const std::optional<OnceRecord>& record() const;
  // Set when somebody began before and did not finish, or another program left something.
  const std::optional<OnceEarlier>& earlier() const;
  // Tells whoever takes over what is about to be done, before it is done: an id, a step. At most 4 kB.
  // Errc::lease_lost: the step is somebody else's by now.
  Async<> note(std::string text);
  // Should the work fail: nobody tries again before this has passed.
  void retry_after(std::chrono::milliseconds time);

 private:
  friend class Once;
  OnceClaim(Once& once, OnceMachine::Id id) : once_(once), id_(id) {}
  Once& once_;
  OnceMachine::Id id_;
  std::optional<std::chrono::milliseconds> retry_after_{};
};

// Not a coroutine lambda with captures: a function that calls a coroutine. It is kept for as long as
// the coroutine runs. An error is told to all who wait, here and elsewhere, with its code.
using OnceWork = std::function<Async<OnceLeft>(OnceClaim&)>;

class Once {
 public:
  // The client outlives it. What others read in the lock begins with `holder`; something that is new at
  // every start follows.
  Once(redis::Client& client, OnceTerms terms, std::string holder = {});
  ~Once();
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;

  // The record, whatever its status is; and where there is none, `work` makes it, unless somebody else
  // does. Of all who ask at one time in one process one asks Redis, with the work of the first.
  // Who waits for a step that somebody else is at gets what comes of it; when he dies `work` goes on
  // from there, also when that step was another one: see OnceClaim::earlier.
  // Errors: that of the work, until retry_after has passed; refused when somebody removed it while it was
  // being created; timeout at the deadline; unavailable when Redis is away; invalid.
  Async<OnceOutcome> obtain(std::string name, OnceWork work, Clock::time_point deadline);
  // Takes a step from the record that is there. Who asks for the step that somebody is at joins him.
  // When the step may not begin from what is there, that is returned as attached. A step that fails
  // leaves the record as it was. Errc::not_found: there is nothing.
  Async<OnceOutcome> change(std::string name, OnceStep step, OnceWork work,
                            Clock::time_point deadline);

  // What is there now; also when somebody is at a step, or the last one failed. Errc::not_found: nothing.
  Async<OnceRecord> get(std::string name, Clock::time_point deadline);
  // Puts this in the place of exactly that version of a record, in one step; without a status it
  // removes it. Returns what is there now. Errc::lease_lost: there is another version, or none, or
  // somebody is at a step.
  Async<OnceRecord> replace(OnceRecord record, OnceLeft left, Clock::time_point deadline);
  Async<> forget(OnceRecord record, Clock::time_point deadline);
  // This version lives for another record_ttl. Errc::lease_lost as with replace: it never brings back
  // what is gone.
  Async<> refresh(OnceRecord record, Clock::time_point deadline);

  // Called after a record has changed, of any name; with an empty name when changes may have been
  // missed. For as long as the caller keeps what is returned. A record of more than 8 kB comes without
  // its bytes.
  [[nodiscard]] std::shared_ptr<void> on_change(std::function<void(const OnceRecord&)> action);

  // Cancels all work. What was begun is free for others at once, if Redis hears of it in a second.
  // Who waits gets Errc::cancelled.
  awaitable<void> close();

  const OnceTerms& terms() const { return machine_.terms(); }
  const std::string& holder() const { return machine_.holder(); }
  const OnceMachine& machine() const { return machine_; }
  // Keeps warren_once_… up to date for as long as the caller keeps what is returned.
  [[nodiscard]] std::shared_ptr<void> publish(Metrics& metrics) const;

 private:
  friend class OnceClaim;
  // A wish of this process: of all who ask for the same.
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
  Event idle_;  // nothing is under way, or nobody waits
  bool closed_ = false;
  TaskGroup tasks_;
};

}  // namespace warren
