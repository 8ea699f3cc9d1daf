#pragma once
// One simulated schedule of mirrors: instances that write and read, an older peer that only sets
// and publishes, an operator that deletes things, and faults of all kinds; then a calm, in which
// everything must come right.
//
// Checked at every step: each snapshot equals a replay of the log up to its place, places follow
// each other without gaps, repeats or swaps, and age() never understates (I10); no snapshot leaves
// the history of the one before, or misses a write that counts as applied, unless history_rewritten
// was raised (I11); what was acknowledged is in the log, each batch once and in order (I5). Checked
// at the end: all mirrors equal the server byte for byte and nothing waits any more (I10, I12), by
// MirrorJudge too; and, if servers lose nothing, writes and the reads that waited for a write are
// linearizable.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "primitives/mirror/machine.h"
#include "proof/history/checkers.h"

namespace warren::mirror {

struct SimulatedSchedule {
  // For an order of writes and reads. If the search took too long, nothing wrong was found.
  enum class Search { none, decided, undecided };
  std::size_t events = 0;
  history::Verdict violation;
  std::vector<const char*> faults;  // kinds that occurred
  Search search = Search::none;
};

// Planted to check that they would be found.
struct Mistakes {
  Flaws machine = {};
  bool drops_pushes = false;
  bool hides_rewrites = false;
  std::string_view in_script = {}, instead = {};  // a part of write.lua
};

// The same seed gives the same schedule. May be called from any thread.
SimulatedSchedule simulate(std::uint64_t seed, const Mistakes& mistakes = {});
// All kinds that SimulatedSchedule::faults may name.
std::span<const char* const> mirror_faults();

}  // namespace warren::mirror
