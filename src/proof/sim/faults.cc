#include "proof/sim/faults.h"

#include <array>

namespace warren::sim {

const char* name(FaultKind fault) {
  static constexpr std::array<const char*, fault_count> names{
      "link broken",   "process cut off", "process paused", "server stopped",   "restarted",
      "primary wiped", "restored",        "failover",       "lost writes",      "stale primary",
      "clock forward", "clock back",      "slots moved",    "slots half moved", "key evicted",
      "narrow link",   "out of memory",   "cannot save",    "no permission",    "loading",
      "read-only"};
  return names[static_cast<std::size_t>(fault)];
}

}  // namespace warren::sim
