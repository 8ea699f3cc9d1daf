#pragma once
// A catalog on Redis in a simulated world: the real scripts and the machine of a node's lease,
// virtual time, and faults from a seed. The same seed gives the same schedule, to the last step.
#include <vector>

#include "proof/history/catalog_checkers.h"
#include "proof/torture/torture.h"

namespace warren::torture {

// Mistakes that tests plant to check that they would be found.
enum class CatalogMistake {
  none,
  // In the scripts.
  claim_ignores_lease,  // the owner's
  epoch_not_raised,     // when the owner changes
  counter_regresses,    // continues from what the server remembers, and nothing else
  unchecked_release,    // by any previous owner
  unchecked_epoch,      // of a write: only the session is checked
  change_skipped,       // a follower's position is one too far
  removal_not_told,     // to followers
  trimming_not_told,    // of the list of changes, to followers
  failover_not_told,    // to followers: they continue from their position, and ignore gaps too
  offers_what_is_owned,
  place_forgotten,         // of a row that changed
  keeps_rows_of_the_dead,  // they are never freed
  wait_never_ends,         // of a row that failed
  // In a node.
  believes_longer,    // than the catalog keeps its lease, by 50 ms
  serves_past_lease,  // does not check its deadline
  ignores_gap,        // in the news: continues from its position, whatever server comes back
  keeps_strays,       // rows that it owns without knowing it
};

struct CatalogSchedule : Schedule {
  history::CatalogJudge::HoldTime hold_time;  // of all nodes, for I13
};
// May be called from any thread.
CatalogSchedule simulate_catalog(std::uint64_t seed, CatalogMistake mistake = CatalogMistake::none);
// All kinds that Schedule::faults may name.
std::vector<const char*> catalog_faults();

}  // namespace warren::torture
