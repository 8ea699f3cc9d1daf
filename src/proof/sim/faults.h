#pragma once
// What can go wrong in a simulated world, and a record of what did.
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace warren::sim {

enum class FaultKind : std::uint8_t {
  broken_link,    // one socket of a process
  cut_off,        // a process reaches no server, and no server reaches it
  paused,         // a process
  stopped,        // a server
  restarted,      // a server, with all its data
  wiped,          // a primary came back empty
  restored,       // a primary came back with an older copy of its data
  failover,       // until all processes have heard of it
  lost_writes,    // a failover to a replica that did not have everything
  stale_primary,  // a replaced primary acted; lasts until its last action
  clock_forward,  // of a primary; or the next primary's clock is ahead of the previous one's
  clock_back,     // the same; lasts until the clock passes what any primary's clock showed before
  moved_slots,    // to another server, with nothing lost; until all processes have followed
  half_moved_slots,  // some of their keys are on one server and some on the other
  evicted,           // a key
  narrow_link,       // so narrow that this alone delays by a millisecond or more
  out_of_memory,     // from here on: the server answers with errors
  cannot_save,
  no_permission,
  loading,
  read_only,
};
inline constexpr std::size_t fault_count = static_cast<std::size_t>(FaultKind::read_only) + 1;
const char* name(FaultKind fault);

// A fault that occurred. `until`: how long the fault lasted, not its consequences.
struct Happened {
  FaultKind fault;
  Clock::time_point from, until;
  bool was_primary = true;  // of a server
  bool acted = true;        // it affected something
};

// Which effects of a command a server refuses. A script whose first write was allowed continues.
enum class Refuses : std::uint8_t { nothing, growth, writes, writes_of_replica };

// The state of a server's slots: see model_slot.h.
enum class SlotState : std::uint8_t { whole, leaving, arriving };

}  // namespace warren::sim
