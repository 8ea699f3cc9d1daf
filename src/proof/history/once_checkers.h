#pragma once
// Whether what happened to things that are created once was allowed: I19 to I22 of
// docs/guarantees.md.
//
//   OnceJudge judge(history, {.alive = 400ms, .lossy = windows});
//   if (auto violation = judge.first_violation()) print(violation->text());
//
//   alice   claimed 41 ├──────────────┤ deadline, or let go      No other process works then (I19).
//   bob     asked ├────────────────────── claimed 43 ├───┤       A late result of 41 is refused,
//   carol               asked ├──────────────────────────── 43   and no later caller gets it (I20).
#include <map>
#include <set>
#include <vector>

#include "proof/history/checkers.h"
#include "proof/history/once_history.h"

namespace warren::history {

struct OnceBounds {
  Clock::duration slack{};  // for scheduling, or for a message
  // A caller with this much patience is answered if nothing is wrong.
  Clock::duration patience{};
  // How long after the end of a call its requests may still arrive.
  Clock::duration late_request{};
  // A process that works without Redis may work past the deadline of its claim: the resource
  // decides.
  bool is_optimistic = false;
  // Times in which the effects of a server fault (lost data, a clock that stepped, a replaced
  // primary that does not know it) can make two processes work, or undo a decision.
  std::vector<Window> lossy = {};
  // Times in which messages came late: a caller that joined one that waited then may get an older
  // state.
  std::vector<Window> unheard = {};
};

class OnceJudge {
 public:
  // The history is sorted and must outlive the judge.
  OnceJudge(const OnceHistory& history, OnceBounds bounds);

  // I19: no process works on a thing while another does, unless it takes the step by force; each
  // claim has a token of its own, higher than that of any claim that was known when it was
  // requested; and work ends with its claim.
  Verdict claims_exclude_each_other() const;
  // I20: all callers see the same result of a step; a step that is over leaves nothing; a later
  // caller does not get something older; and what exists is not created again.
  Verdict results_are_the_winners() const;
  // I21: every waiter gets an answer or an error by its deadline, and an answer if nothing is
  // wrong.
  Verdict waits_end() const;
  // I22: in the end there is a record of each resource, and of nothing else.
  Verdict records_are_of_resources() const;

  Verdict first_violation() const;
  // How long things were worked on, and how much of that I19 does not judge.
  struct WorkTime {
    Clock::duration excused{}, all{};
  };
  WorkTime work_time() const;

 private:
  using Kind = OnceEvent::Kind;
  using Events = std::vector<const OnceEvent*>;
  struct Work {
    const OnceEvent* claimed;
    Clock::time_point until, deadline;  // of the belief; of the claim
    const OnceEvent* let_go;
  };

  void collect_works();
  std::vector<std::pair<ThingId, Window>> forced_calls() const;
  Events of_thing(ThingId thing, std::initializer_list<Kind> kinds) const;
  bool has_loss(Clock::time_point from, Clock::time_point until) const;
  Clock::duration outside_losses(Clock::time_point from, Clock::time_point until) const;
  // When a process that was asleep at that time is awake again.
  Clock::time_point awake_from(ProcessId process, Clock::time_point time) const;
  Clock::time_point death_of(ProcessId process) const;
  Verdict tokens_grow(ThingId thing) const;
  Verdict late_results_are_refused(ThingId thing) const;
  Verdict answers_agree(ThingId thing) const;
  Verdict answers_do_not_go_back(ThingId thing) const;
  Verdict nothing_is_created_again(ThingId thing) const;
  Violation violation(const char* invariant, std::string what, Events events) const;

  const OnceHistory& history_;
  OnceBounds bounds_;
  Clock::time_point start_{}, end_{};
  std::set<ThingId> things_;
  std::map<ProcessId, Clock::time_point> deaths_;
  std::map<ProcessId, std::vector<Window>> sleeps_;
  std::vector<Work> works_;  // by thing, then time
};

}  // namespace warren::history
