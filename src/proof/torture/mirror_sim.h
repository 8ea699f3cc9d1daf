#pragma once
// One simulated schedule of mirrors: instances that write and read, an older peer that only sets
// and publishes, an operator who deletes things, and whatever the weather brings; then calm, in
// which everything must come right.
//
// Checked all the time: entries are applied without hole, repeat or swap and age() never
// understates (I10); what is read never goes back, and own writes are read, or history_rewritten
// was raised (I11). Checked in the end: all mirrors equal the server byte for byte, and nothing
// waits or is held any more (I10, I12).
#include <cstdint>

#include "primitives/mirror/machine.h"
#include "proof/history/checkers.h"

namespace warren::mirror {

struct SimulatedSchedule {
  std::size_t events = 0;
  history::Verdict violation;
};

// The same seed gives the same schedule. From any thread.
SimulatedSchedule simulate(std::uint64_t seed, Flaws flaws = {});

}  // namespace warren::mirror
