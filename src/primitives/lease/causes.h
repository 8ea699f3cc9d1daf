#pragma once
#include "base/error.h"

namespace warren::lease::causes {

inline constexpr Cause fenced("lease.fenced");                  // a newer token has written since
inline constexpr Cause not_replicated("lease.not_replicated");  // granted, but not on every replica

}  // namespace warren::lease::causes
