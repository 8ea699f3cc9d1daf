#pragma once
// A lease: a name held by at most one holder, until a deadline, under a token that only grows.
//
//   alice           Redis            bob    Alice may still believe in her lease after bob was
//     |-- acquire --->|               |     granted it: no clock can prevent that. The token
//     |<-- token 41 --|               |     keeps data safe: every write made under a lease
//     |   (stalls)    | ttl runs out  |     carries one, and a write with an older token than
//     |               |<-- acquire ---|     the last one is refused.
//     |               |-- token 42 -->|
//     |-- write, 41 ->| refused       |
//
//   LeaseSession session(client);               // one per process
//   LeaseTerms terms{"{jobs}:indexer", "alice"};
//   auto lease = co_await session.acquire(terms, Clock::now() + 10s);
//   auto written = co_await lease->guarded(redis::Command("SET", "{jobs}:state", "done"));
//   co_await lease->release();                  // the next in line has it at once
//   co_await session.close();                   // ~LeaseSession ensures that this was done
//
// The protocol, and why it is safe: docs/protocols/lease.md.
// What it cannot do: docs/guarantees.md.
#include <map>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/task.h"
#include "primitives/lease/machine.h"
#include "redis/client.h"
#include "redis/subscriber.h"

namespace warren {

class LeaseSession;

// The result of an acquisition. Moving it is cheap. Destroying it releases the lease in the
// background.
class Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  // held: no other process holds the lease before deadline(). uncertain: a renewal is overdue, so
  // begin nothing that cannot be undone. ended: the lease is over, see why(). Reads the clock, so
  // the answer is right even if nothing else has run for a long time.
  LeaseState state() const;
  bool is_held() const { return state() == LeaseState::held; }
  // May grow while the lease is held, after a failover.
  FencingToken token() const;
  Clock::time_point deadline() const;
  // The key that stores the newest token, for scripts that check it themselves (fence.h).
  const std::string& fence() const;
  const Error& why() const;
  const LeaseTerms& terms() const;

  // Runs a command under this lease's token. Its keys must share the hash tag of the lease's key.
  // Returns Errc::lease_lost if the lease has been granted to another holder since; nothing was
  // written then.
  Async<redis::Reply> guarded(redis::Command command);
  // Changes the value that others read in the lease's key, from the next renewal on.
  void show(std::string value);
  // Returns when the lease is over, for whatever reason, and no later than its deadline.
  awaitable<void> ended();
  // Hands the lease to the next in line now. If the server refuses temporarily, retries for as long
  // as the client's command_timeout. An error comes from the server or means that there was no
  // answer. After a missing answer the session keeps trying in the background; at worst the lease
  // expires by itself one ttl later.
  Async<> release();

 private:
  friend class LeaseSession;
  Lease(LeaseSession& session, LeaseId id) : session_(&session), id_(id) {}
  LeaseSession* session_;
  LeaseId id_;
};

// Runs work while the lease lasts. Whichever ends first cancels the other, and neither outlives
// this call. Returns Errc::lease_lost if the work was cancelled.
Async<> while_held(Lease& lease, Async<> work);

// Runs one command, unless `fence` has seen a newer token: then it returns Errc::lease_lost. For
// resources with a fence of their own, which must share the hash tag of the command's keys.
Async<redis::Reply> run_guarded(redis::Client& client, std::string fence, FencingToken token,
                                redis::Command command);

// Makes a script that decides about a lease together with something else, in one step. It receives
// the keys and arguments of the lease, followed by its own (from KEYS[4] and ARGV[11] on). It may
// refuse with an error (Errc::refused). To grant, it returns what `lease(KEYS, ARGV)` returns; the
// first item of that is 1 if the caller has the lease. Like the lease's own script, it may run
// twice.
redis::Script conditional_lease(std::string name, std::string_view source);

// All the leases of one process. Keeps them alive with one command every third of the session's
// ttl, however many there are, and waits in line for leases that other processes hold.
class LeaseSession {
 public:
  // The client must outlive the session.
  explicit LeaseSession(redis::Client& client, std::chrono::milliseconds ttl = 15s,
                        std::optional<LeaseRoom> room = {});
  ~LeaseSession();
  LeaseSession(const LeaseSession&) = delete;
  LeaseSession& operator=(const LeaseSession&) = delete;

  // Does not wait. Errc::held_elsewhere names the holder. A waiter in line takes precedence.
  Async<Lease> try_acquire(LeaseTerms terms);
  // First come, first served. Returns Errc::timeout at the deadline, and Errc::overloaded if ten
  // thousand waiters are already in line.
  Async<Lease> acquire(LeaseTerms terms, Clock::time_point deadline);

  // Releases every lease still held and waits until Redis has confirmed, for at most a second.
  // Leases of this session must not be used afterwards.
  awaitable<void> close();

  const std::string& holder() const { return holder_; }
  redis::Client& client() { return client_; }
  const LeaseMachine& machine() const { return machine_; }
  // Keeps the warren_lease_… metrics up to date while the caller keeps the returned object.
  [[nodiscard]] std::shared_ptr<void> publish(Metrics& metrics) const;

 private:
  friend class Lease;
  Async<Lease> obtain(LeaseTerms terms, bool waits, Clock::time_point deadline);
  void leave(LeaseId id);
  bool is_over(LeaseId id) const;
  void follow_topology();
  void pump();
  awaitable<void> send(LeaseMachine::Request request);
  awaitable<void> keep_time();
  void look_at_clock();
  awaitable<void> listen();
  awaitable<void> ask_when_subscribed();
  awaitable<void> watch_topology();
  Async<redis::Reply> write(LeaseMachine::Request& request, bool& has_all_replicas);
  Async<redis::Reply> write_replicated(const LeaseMachine::Request& request,
                                       const redis::Script& script, redis::CallOptions options,
                                       bool& has_all_replicas);
  Async<redis::Reply> write_in_steps(const LeaseMachine::Request& request,
                                     redis::CallOptions options);

  redis::Client& client_;
  std::string holder_;
  LeaseMachine machine_;
  redis::Subscriber subscriber_;
  Timer timer_;
  struct Watcher {
    Event changed;
    std::optional<Error> refusal;  // why its release was refused
  };
  // Shared with the coroutines that wait, because the lease may be released meanwhile.
  std::map<LeaseId, std::shared_ptr<Watcher>> watchers_;
  std::set<std::string> subscribed_;
  std::uint64_t changes_seen_ = 0;
  bool closed_ = false;
  TaskGroup tasks_;
};

}  // namespace warren
