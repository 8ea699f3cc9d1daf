#pragma once
// For scripts that write under a lease's token: prefixes them with fence.lua.
#include "primitives/lease/causes.h"
#include "primitives/lease/scripts.h"
#include "redis/resp/refusal.h"

namespace warren {

inline redis::Script behind_fence(const redis::Script& script) {
  return {script.name(), scripts::fence.source() + script.source()};
}

// Translates the failure of such a script: lease_lost if a newer token has written since.
inline Error behind_fence(Error error) {
  auto why = redis::said(error, "FENCED");
  if (!why) return error;
  return {Errc::lease_lost, lease::causes::fenced, "", std::string(*why)};
}

}  // namespace warren
