#pragma once
// Leases in a simulated world: the real machine and the real scripts, virtual time, and faults from
// a seed. The same seed gives the same schedule, to the last step.
#include <vector>

#include "proof/torture/torture.h"

namespace warren::torture {

// Mistakes that tests plant to check that they would be found.
enum class LeaseMistake {
  none,
  // In the machine, or in its driver.
  deadline_from_reply,  // instead of from before the request was sent
  blind_release,        // deletes the key without checking whose it is
  ignores_gap,          // does not ask again when a grant may have been missed
  believes_longer,      // than the server keeps it, by 50 ms
  late_timer,           // acts on its own deadline 50 ms late, as a session with a bad timer would
  reuses_generation,    // a lost session comes back under the same name
  unshown_claim,        // while a slot moves: believes the fence, and does not set the lease's key
  // In the scripts.
  unchecked_release,   // without checking the owner
  unchecked_renewal,   // the same
  leaves_queue_entry,  // of a process that leaves the line
  counter_regresses,   // continues from what the server remembers, and nothing else
  counter_only_fence,  // compares the counter, but not the epoch
  short_retention,     // of the fence: 100 ms
  // In a resource outside Redis.
  token_not_checked,
  counter_only_resource,
};

struct LeaseSchedule : Schedule {
  history::LeaseJudge::Share waiters;       // of the waiters, for I6
  history::LeaseJudge::HoldTime hold_time;  // of all owners, for I3
  std::size_t misled = 0;  // grants by message that a clock's step made look younger than they were
};
// May be called from any thread.
LeaseSchedule simulate_leases(std::uint64_t seed, LeaseMistake mistake = LeaseMistake::none);
// All kinds that Schedule::faults may name.
std::vector<const char*> lease_faults();

}  // namespace warren::torture
