#pragma once
// A catalog on Redis in a simulated world: the real scripts and the machine of a node's lease, virtual
// time, and faults from a seed. The same seed gives the same schedule, to the last step.
#include <vector>

#include "proof/history/catalog_checkers.h"
#include "proof/torture/torture.h"

namespace warren::torture {

// Mistakes that a test plants, to see that they are found.
enum class CatalogMistake {
  none,
  // Of the scripts.
  claim_ignores_lease,  // of the owner
  epoch_not_raised,     // with a change of owner
  counter_regresses,    // counts on from what the server remembers, and nothing else
  unchecked_release,    // by whoever had the row once
  unchecked_epoch,      // of a write: only the session counts
  change_skipped,       // a follower's position is one too far
  removal_not_told,     // to who follows
  trimming_not_told,    // of the list of changes, to who follows
  failover_not_told,    // to who follows: it goes on from its position, and minds no gap either
  offers_what_is_owned,
  place_forgotten,         // of a row that changed
  keeps_rows_of_the_dead,  // nobody frees them
  wait_never_ends,         // of a row that failed
  // Of a node.
  believes_longer,    // than the catalog keeps its lease, by 50 ms
  serves_past_lease,  // does not look at its deadline
  ignores_gap,        // in the news: goes on from its position, whatever server comes back
  keeps_strays,       // rows that are its own without its knowledge
};

struct CatalogSchedule : Schedule {
  history::CatalogJudge::HoldTime hold_time;  // of all nodes, for I13
};
// From any thread.
CatalogSchedule simulate_catalog(std::uint64_t seed, CatalogMistake mistake = CatalogMistake::none);
// All kinds that Schedule::faults may name.
std::vector<const char*> catalog_faults();

}  // namespace warren::torture
