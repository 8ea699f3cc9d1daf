#pragma once
// A lease: a name held by at most one holder, until a deadline, under a token that only grows.
//
//   alice           Redis            bob    Alice may go on believing in her lease after bob
//     |-- acquire --->|               |     has it: no clock can prevent that. What keeps data
//     |<-- token 41 --|               |     safe is the token: every write made under a lease
//     |   (stalls)    | ttl runs out  |     carries one, and a write with an older token than
//     |               |<-- acquire ---|     the last is refused.
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

// What an acquisition gives. Moving it is cheap; destroying it releases the lease in the
// background.
class Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  // held: until deadline() nobody else has it. uncertain: a renewal is overdue, so begin nothing
  // that cannot be undone. ended: it is over, see why(). Looks at the clock, so it is right even when
  // nothing else has run for long.
  LeaseState state() const;
  bool is_held() const { return state() == LeaseState::held; }
  // May grow while the lease is held: after a failover.
  FencingToken token() const;
  Clock::time_point deadline() const;
  // The key with the newest token, for scripts that look at it themselves (fence.h).
  const std::string& fence() const;
  const Error& why() const;
  const LeaseTerms& terms() const;

  // Runs a command under this lease's token; its keys share the hash tag of the lease's key.
  // Errc::lease_lost when somebody was granted the lease since: then nothing was written.
  Async<redis::Reply> guarded(redis::Command command);
  // What others read in the lease's key from the next renewal on.
  void show(std::string value);
  // Returns when the lease is over, for whatever reason; no later than its deadline.
  awaitable<void> ended();
  // Lets the next in line have it now. Tries again for as long as the client's command_timeout when
  // the server refuses for a time. An error is the server's, or that there was no answer: then it
  // goes on trying, and at the latest the lease ends by itself, one ttl later.
  Async<> release();

 private:
  friend class LeaseSession;
  Lease(LeaseSession& session, LeaseId id) : session_(&session), id_(id) {}
  LeaseSession* session_;
  LeaseId id_;
};

// Runs work for as long as the lease lasts. Whichever ends first cancels the other, and neither
// outlives this call. Errc::lease_lost: the work was cancelled.
Async<> while_held(Lease& lease, Async<> work);

// One command, refused with Errc::lease_lost when `fence` has seen a newer token. For resources
// that have a fence of their own; it shares the hash tag of the command's keys.
Async<redis::Reply> run_guarded(redis::Client& client, std::string fence, FencingToken token,
                                redis::Command command);

// A script that decides about a lease together with something else, in one step. It is given the
// keys and arguments of the lease and, behind these (KEYS[4], ARGV[11] and on), its own. It may
// refuse with an error (Errc::refused); to grant, it returns what `lease(KEYS, ARGV)` returns,
// whose first item is 1 when the caller has the lease. It may run twice, as the lease's own may.
redis::Script conditional_lease(std::string name, std::string_view source);

// What one process holds: keeps its leases alive with one command every third of the session's ttl,
// however many they are, and waits in line for those that others hold.
class LeaseSession {
 public:
  // The client outlives it.
  explicit LeaseSession(redis::Client& client, std::chrono::milliseconds ttl = 15s,
                        std::optional<LeaseRoom> room = {});
  ~LeaseSession();
  LeaseSession(const LeaseSession&) = delete;
  LeaseSession& operator=(const LeaseSession&) = delete;

  // Does not wait: Errc::held_elsewhere names the holder. Whoever waits in line comes first.
  Async<Lease> try_acquire(LeaseTerms terms);
  // First come, first served. Errc::timeout at the deadline; Errc::overloaded when ten thousand
  // wait already.
  Async<Lease> acquire(LeaseTerms terms, Clock::time_point deadline);

  // Gives back what is still held, and waits until Redis was told, for a second at most. No lease
  // of this session may be used any more.
  awaitable<void> close();

  const std::string& holder() const { return holder_; }
  redis::Client& client() { return client_; }
  const LeaseMachine& machine() const { return machine_; }
  // Keeps warren_lease_… up to date for as long as the caller keeps what is returned.
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
    std::optional<Error> refusal;  // of its release
  };
  // Shared with whoever waits, since the lease may be released meanwhile.
  std::map<LeaseId, std::shared_ptr<Watcher>> watchers_;
  std::set<std::string> subscribed_;
  std::uint64_t changes_seen_ = 0;
  bool closed_ = false;
  TaskGroup tasks_;
};

}  // namespace warren
