#pragma once
// Leases in a simulated world: the real machine and the real script, virtual time, and faults from
// a seed. The same seed gives the same schedule, to the last step.
#include "proof/torture/torture.h"

namespace warren::torture {

// Mistakes that a test plants, to see that they are found.
enum class LeaseMistake {
  none,
  deadline_from_reply,  // instead of from before the request left
  blind_release,        // deletes the key without asking whose it is
  counter_regresses,    // counts on from what the server remembers, and nothing else
  token_not_checked,    // by the resource
  ignores_gap,          // does not ask again when a grant may have been missed
};

// From any thread.
Schedule simulate_leases(std::uint64_t seed, LeaseMistake mistake = LeaseMistake::none);

}  // namespace warren::torture
