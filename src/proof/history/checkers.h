#pragma once
// Whether what happened was allowed: exact checks of order and intervals, linear or n log n.
//
//   LeaseJudge judge(history, {.ttl = 500ms, .wake = 50ms});
//   if (auto violation = judge.first_violation()) print(violation->text());
//
// Each check is one invariant of docs/guarantees.md, I1 to I12 without 8 and 9. Registers and
// create-once are in linearizable.h. A check does not judge what the history leaves open: an
// operation without an end may or may not have happened, and what comes after the last event is
// unknown.
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "proof/history/history.h"

namespace warren::history {

struct Violation {
  std::string invariant;            // "I3"
  std::string what;                 // one line
  std::vector<std::string> events;  // the events in question, in the order in which they happened

  std::string text() const;
};
using Verdict = std::optional<Violation>;  // nullopt: the invariant holds

struct LeaseBounds {
  Clock::duration ttl;        // the longest ttl of a grant
  Clock::duration wake;       // a free lock with a waiter is granted within this
  Clock::duration slack{};    // for scheduling, or for a round trip; counts only while awake
  Clock::duration overlap{};  // of two owners' beliefs
  // Times in which servers could not be reached: waiting is not judged there, nor for one ttl
  // after.
  std::vector<Window> excused = {};
  // Times in which a server holds a lock for a process that does not believe so yet, or never will.
  struct Taken {
    LockId lock;
    Window window;
  };
  std::vector<Taken> taken = {};
  // When a server handed a lock to the next in line. In times that are not judged that process may
  // have died, or have been unable to say that it left: then the lock is taken for one ttl, even
  // into times that are judged.
  struct Handed {
    LockId lock;
    Clock::time_point at;
  };
  std::vector<Handed> handed = {};
  // Times in which the effects of a server fault (lost data, a clock that stepped, a replaced
  // primary that does not know it) can make two owners believe.
  std::vector<Window> lossy = {};
};

class LeaseJudge {
 public:
  // The history is sorted and must outlive the judge.
  LeaseJudge(const LeaseHistory& history, LeaseBounds bounds);

  // I1: a resource accepts no token lower than one it has accepted, and one token from one owner
  // only.
  Verdict resources_are_fenced() const;
  // I2: a process that asks for a lock after another grant was known gets a higher token, and no
  // token is given twice. In lossy times a replaced primary may continue in its own epoch, below
  // its successor.
  Verdict tokens_grow() const;
  // I3: no process believes that it owns a lock while another does. Belief ends when it ends,
  // whatever the deadline was; only an owner that was asleep at its deadline believed nothing until
  // it woke.
  Verdict owners_exclude_each_other() const;
  // I4: an owner learns of a loss no later than at its deadline, and `lost` is final.
  Verdict losses_are_told() const;
  // I6: an attempt ends when its time is up, and a free lock does not stay free while a process
  // waits for it.
  Verdict waiters_wake() const;
  // I7: a process that is ahead of another in the queue is granted first, if it kept its place: it
  // was neither paused nor in excused times. A process that was enqueued again counts from then on,
  // and may have kept its first place.
  Verdict waiters_keep_their_order() const;

  Verdict first_violation() const;
  // The number of overlaps that passed because of `lossy` times.
  std::size_t lossy_overlaps() const;
  // The number of attempts that were judged for I6, and of all attempts: the others were in excused
  // times throughout.
  struct Share {
    std::size_t judged = 0, all = 0;
  };
  Share judged_waiters() const;
  // How long locks were held, and how much of that I3 does not judge, because it was in lossy
  // times.
  struct HoldTime {
    Clock::duration excused{}, all{};
  };
  HoldTime hold_time() const;

 private:
  struct Attempt {
    const LeaseEvent *begun = nullptr, *enqueued = nullptr, *granted = nullptr;
    bool is_enqueued_again = false;
    const LeaseEvent *renewed = nullptr, *raised = nullptr, *lost = nullptr, *released = nullptr,
                     *ended = nullptr;
  };
  struct Pause {
    ProcessId process;
    Window window;
  };
  struct Hold {
    const Attempt* attempt;
    Clock::time_point from, until;
  };
  struct Busy {
    LockId lock;
    Clock::time_point from, until;
  };
  struct Overlap {
    const Hold *first, *second;
  };

  void index(const LeaseEvent& event);
  void collect_weather();
  void collect_holds();
  Clock::time_point end_of_belief(const Attempt& attempt) const;
  Clock::duration length_outside_losses(Window overlap) const;
  const Attempt& attempt_of(const LeaseEvent& event) const { return attempts_[event.attempt]; }
  Clock::time_point deadline_of(const Attempt& attempt) const;
  Clock::time_point death_of(ProcessId process) const;
  // When an attempt stopped waiting; for one that still waits, the end of the history.
  Clock::time_point end_of_wait(const Attempt& attempt) const;
  // When a process has acted at the latest on a moment that it has set its timer to.
  Clock::time_point due(ProcessId process, Clock::time_point moment) const;
  bool was_undisturbed(ProcessId process, Window window) const;
  bool is_lossy(Clock::time_point time) const;
  Verdict in_order(std::initializer_list<LeaseEvent::Kind> kinds, const char* invariant,
                   bool equal_is_ok) const;
  template <class Visit>
  void each_overlap(Visit visit) const;
  Verdict ends_in_time(const Attempt& attempt) const;
  Verdict free_too_long(std::span<const Attempt* const> waiters, std::span<const Busy> busy) const;
  Verdict waited_through(std::span<const Attempt* const>& waiters, Window calm) const;
  Violation violation(const char* invariant, std::string what,
                      std::vector<const LeaseEvent*> events) const;

  const LeaseHistory& history_;
  LeaseBounds bounds_;
  Clock::time_point start_{}, end_{};
  std::vector<Attempt> attempts_;
  std::vector<const LeaseEvent*> deaths_;
  std::vector<Pause> pauses_;    // by process, then time
  std::vector<Window> weather_;  // disjoint, sorted: all times in which waiting is not judged
  std::vector<Window> losses_;   // disjoint, sorted: bounds_.lossy
  std::vector<Hold> holds_;      // by lock, then time
  std::vector<Busy> busy_;       // by lock, then time: when no other process could have had it
  Verdict malformed_;
};

struct MirrorBounds {
  Clock::duration slack{};  // for scheduling, before a claimed age is measured
  // A write may vanish if it was acknowledged this long before a fault that loses data, or this
  // long after it (by a primary that does not know yet).
  Clock::duration lost_before{}, lost_after{};
  std::uint64_t first_of_epoch = 0;  // the counter of the first id of each epoch
};

class MirrorJudge {
 public:
  // The history is sorted and must outlive the judge.
  MirrorJudge(const MirrorHistory& history, MirrorBounds bounds);

  // I5: what was acknowledged is in the log, or a fault excuses that it is missing. Ids below the
  // first one in the log count as trimmed.
  Verdict acknowledged_writes_survive() const;
  std::size_t lost_writes() const;  // excused ones
  // I10: entries are applied without gaps, repeats or swaps; in the end every reader has what the
  // server has.
  Verdict entries_are_applied_in_order() const;
  Verdict contents_are_equal() const;
  // I10: every state of a reader equals a replay of the log up to there. Not judged: a reader that
  // was told later that history was rewritten, or that may have died before that; and the one
  // snapshot that a reader keeps showing between being told and having loaded everything again.
  Verdict snapshots_are_the_log() const;
  // I10: what was acknowledged longer ago than the claimed age is contained.
  Verdict ages_are_true() const;
  // I11: reads do not go back, and session reads contain the session's own writes, unless the
  // reader was told that history was rewritten.
  Verdict reads_are_monotonic() const;

  Verdict first_violation() const;

 private:
  std::set<const MirrorEvent*> reads_of_what_was_left() const;
  bool is_logged(Token id) const;
  bool is_trimmed(Token id) const { return !log_.empty() && id < log_.front(); }
  bool may_be_lost(const MirrorEvent& acknowledged) const;
  Violation violation(const char* invariant, std::string what,
                      std::vector<const MirrorEvent*> events) const;

  const MirrorHistory& history_;
  MirrorBounds bounds_;
  std::vector<Token> log_;
  std::vector<const MirrorEvent*> log_events_;  // events with a digest, by id
  std::vector<const MirrorEvent*> by_process_;
  std::vector<Clock::time_point> faults_;
};

// I12: what was taken is given back.
struct Level {
  std::string what;  // "connections of process 3"
  std::int64_t before, after;
};
Verdict nothing_leaked(std::span<const Level> levels, std::int64_t tolerance = 0);

}  // namespace warren::history
