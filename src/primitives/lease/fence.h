#pragma once
// For scripts that write under a lease's token: they begin with the lines of fence.lua.
#include "primitives/lease/scripts.h"

namespace warren {

inline redis::Script behind_fence(const redis::Script& script) {
  return {script.name(), scripts::fence.source() + script.source()};
}

}  // namespace warren
