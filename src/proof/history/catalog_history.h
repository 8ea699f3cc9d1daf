#pragma once
// What the nodes of a catalog did and saw, written down so that it can be judged (catalog_checkers.h).
//
//   CatalogHistory history;
//   history.note({.at = now, .kind = CatalogEvent::Kind::claimed, .row = 3, .process = 1, …});
//
// As with leases: who does a thing writes it down. A node writes "claimed" when it begins to believe
// in a row, and "dropped" when it stops, before the request leaves. All stamps are of one Clock.
#include <string>
#include <vector>

#include "proof/history/history.h"

namespace warren::history {

using RowId = std::uint32_t;
using LifeId = std::uint32_t;  // of a node: each session of a process is another one

struct CatalogEvent {
  enum class Kind : std::uint8_t {
    // Of a node.
    leased,    // its lease lasts until `deadline`, by its own clock
    ended,     // this life is over: it was told so, or leaves
    claimed,   // believes in a row, under `token`; the catalog cannot have decided before `since`
    dropped,   // no longer does
    served,    // did something as the owner of a row
    released,  // the catalog says that it has the row back
    written,   // the catalog took a write, with the note `number`; it was asked at `since`
    refused,   // the catalog said lease_lost; the same
    offered,   // the catalog gave this row to claim, when it was asked at `since`
    killed,    // the process
    // Of somebody who follows the changes.
    seen,      // a row, as its owner's `token` and its note's `number` were
    gone,      // a row that was removed
    restarts,  // all that there is follows
    contents,  // after the run: what it has, as a digest in `number`
    // Of the catalog.
    catalog_contents,  // after the run: what it has
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
  // Appends what another process wrote. Needs sort() before anybody reads it.
  void add(const CatalogHistory& other);
  void sort();

  const std::vector<CatalogEvent>& events() const { return events_; }

 private:
  std::vector<CatalogEvent> events_;
};

// One line, with times as the distance from `origin`.
std::string describe(const CatalogEvent& event, Clock::time_point origin);

}  // namespace warren::history
