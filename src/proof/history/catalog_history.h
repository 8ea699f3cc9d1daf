#pragma once
// What the nodes of a catalog did and saw, recorded so that it can be judged (catalog_checkers.h).
//
//   CatalogHistory history;
//   history.note({.at = now, .kind = CatalogEvent::Kind::claimed, .row = 3, .process = 1, …});
//
// As with leases, the process that does something records it. A node records "claimed" when it
// begins to believe in a row, and "dropped" when it stops, before the request leaves. All stamps
// are from one Clock.
#include <string>
#include <vector>

#include "proof/history/history.h"

namespace warren::history {

using RowId = std::uint32_t;
using LifeId = std::uint32_t;  // of a node: each session of a process is another life

struct CatalogEvent {
  enum class Kind : std::uint8_t {
    // From a node.
    leased,    // its lease lasts until `deadline`, by its own clock
    ended,     // this life is over: the catalog said so, or the node leaves
    claimed,   // believes in a row, under `token`; the catalog cannot have decided before `since`
    dropped,   // no longer believes in it
    served,    // acted as the owner of a row
    released,  // the catalog confirms that it has the row back
    written,   // the catalog accepted a write with the note `number`, requested at `since`
    refused,   // the catalog returned lease_lost; otherwise the same
    offered,   // the catalog offered this row, requested at `since`
    killed,    // the process
    // From a follower of the changes.
    seen,      // a row, with its owner's `token` and its note's `number`
    gone,      // a row that was removed
    restarts,  // everything that exists follows
    contents,  // after the run: what the follower has, as a digest in `number`
    // From the catalog.
    catalog_contents,  // after the run: what the catalog has
    settled,           // nothing was wrong for long enough: every row has an owner, at some time
                       // between `since` and now
  };
  Clock::time_point at{};
  Kind kind{};
  RowId row = 0;
  ProcessId process = 0;
  LifeId life = 0;
  Token token{};
  std::uint64_t number = 0;
  Clock::time_point since{}, deadline{};
};

class CatalogHistory {
 public:
  void note(const CatalogEvent& event) { events_.push_back(event); }
  // Appends what another process recorded. Call sort() before reading.
  void add(const CatalogHistory& other);
  void sort();

  const std::vector<CatalogEvent>& events() const { return events_; }

 private:
  std::vector<CatalogEvent> events_;
};

// One line, with times relative to `origin`.
std::string describe(const CatalogEvent& event, Clock::time_point origin);

}  // namespace warren::history
