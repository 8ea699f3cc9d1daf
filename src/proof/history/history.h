#pragma once
// What happened in a run, recorded so that it can be judged afterwards (checkers.h).
//
//   LeaseHistory history;
//   auto attempt = history.begun(now, process, lock, give_up);
//   history.granted(now, attempt, {.token = {epoch, counter}, .since = sent, .deadline = until});
//   history.released(now, attempt);
//
// One call writes a few words into a vector and does nothing else, so a simulation can afford it.
// The process that does something records it: an owner records "granted" when it begins to believe,
// and "released" when it stops believing, before the request leaves. All stamps are from one Clock,
// so the histories of several processes of one machine can be merged and sorted.
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace warren::history {

// Fencing tokens, places in a queue and ids of a log: numbers that an epoch counts.
struct Token {
  std::uint64_t epoch = 0, counter = 0;
  auto operator<=>(const Token&) const = default;
};

using ProcessId = std::uint32_t;  // new at every start of a process
using LockId = std::uint32_t;
using AttemptId = std::uint32_t;  // one call of acquire, and its grant

struct Window {
  Clock::time_point from, until;
};

struct LeaseEvent {
  enum class Kind : std::uint8_t {
    begun,     // a process wants the lock; deadline: when it stops waiting
    enqueued,  // token: its place. A second one replaces the first, which it may have lost
    granted,   // since: the earliest time of the grant; deadline: of the owner's belief
    renewed,   // deadline
    raised,    // the owner continues under a higher token; since: as above
    lost,      // the owner learned of it
    released,  // the owner lets go
    ended,     // an attempt is over without a grant: timeout, cancelled, refused
    accepted,  // a resource did something under the token; since: when that was requested
    rejected,  // … refused to do it
    killed,    // from here on, of the process
    paused,
    resumed,
  };
  Clock::time_point at;
  Clock::time_point since{}, deadline{};
  Token token{};
  AttemptId attempt = 0;
  LockId lock = 0;
  ProcessId process = 0;
  Kind kind{};
};

class LeaseHistory {
 public:
  struct Grant {
    Token token;
    Clock::time_point since, deadline;
  };

  // By default waits as long as it takes.
  AttemptId begun(Clock::time_point at, ProcessId process, LockId lock,
                  Clock::time_point give_up = Clock::time_point::max());
  void enqueued(Clock::time_point at, AttemptId attempt, Token place);
  void granted(Clock::time_point at, AttemptId attempt, const Grant& grant);
  void renewed(Clock::time_point at, AttemptId attempt, Clock::time_point deadline);
  void raised(Clock::time_point at, AttemptId attempt, Token token, Clock::time_point since);
  void lost(Clock::time_point at, AttemptId attempt);
  void released(Clock::time_point at, AttemptId attempt);
  void ended(Clock::time_point at, AttemptId attempt);
  // The resource is the one that the attempt's lock guards. `since` equals `at` if the stamps are
  // the resource's own: then the order is exact.
  void accepted(Clock::time_point at, AttemptId attempt, Token token, Clock::time_point since);
  void rejected(Clock::time_point at, AttemptId attempt, Token token, Clock::time_point since);
  void killed(Clock::time_point at, ProcessId process);
  void paused(Clock::time_point at, ProcessId process);
  void resumed(Clock::time_point at, ProcessId process);

  // Appends what another process recorded. Call sort() before reading.
  void add(const LeaseHistory& other);
  void sort();
  void clear();  // keeps the memory

  const std::vector<LeaseEvent>& events() const { return events_; }
  std::size_t attempts() const { return attempts_.size(); }

 private:
  struct Attempt {
    LockId lock;
    ProcessId process;
  };
  LeaseEvent& write(Clock::time_point at, AttemptId attempt, LeaseEvent::Kind kind);

  std::vector<LeaseEvent> events_;
  std::vector<Attempt> attempts_;
};

struct MirrorEvent {
  enum class Kind : std::uint8_t {
    acknowledged,       // a write of this process; id
    applied,            // the next entry of the log, by this reader; id
    resynced,           // the reader starts over, with everything written up to id
    read,               // id: the newest entry in the reader's state
    session_read,       // the same, by a session that wants to see its own writes
    history_rewritten,  // the reader was told that id and everything after it never happened
    logged,             // after the run: this id is in the server's log
    contents,           // after the run: what the reader has, as a digest
    server_contents,    // after the run: what the server has
    data_lost,          // a fault that may lose acknowledged writes
  };
  Clock::time_point at;
  Clock::duration age{};
  Token id{};
  std::uint64_t digest = 0;
  ProcessId process = 0;
  Kind kind{};
};

class MirrorHistory {
 public:
  void acknowledged(Clock::time_point at, ProcessId process, Token id);
  void applied(Clock::time_point at, ProcessId reader, Token id);
  void resynced(Clock::time_point at, ProcessId reader, Token id);
  // `age` is what the reader claims: everything acknowledged longer ago than this is contained.
  // `digest` is of everything it has, or 0.
  void read(Clock::time_point at, ProcessId reader, Token id, Clock::duration age,
            std::uint64_t digest = 0);
  void session_read(Clock::time_point at, ProcessId reader, Token id, Clock::duration age);
  void history_rewritten(Clock::time_point at, ProcessId reader, Token from);
  void data_lost(Clock::time_point at);
  // Call these once the writers have ended and the readers had time to follow. `digest` is of a
  // replay of the log up to here, or 0.
  void logged(Clock::time_point at, Token id, std::uint64_t digest = 0);
  void contents(Clock::time_point at, ProcessId reader, std::uint64_t digest);
  void server_contents(Clock::time_point at, std::uint64_t digest);

  void add(const MirrorHistory& other);
  void sort();
  void clear();
  const std::vector<MirrorEvent>& events() const { return events_; }

 private:
  MirrorEvent& write(Clock::time_point at, MirrorEvent::Kind kind, ProcessId process = 0,
                     Token id = {});
  std::vector<MirrorEvent> events_;
};

// One line, with times relative to `origin`.
std::string describe(const LeaseEvent& event, Clock::time_point origin);
std::string describe(const MirrorEvent& event, Clock::time_point origin);
std::string describe(Token token);  // 3.41

}  // namespace warren::history
