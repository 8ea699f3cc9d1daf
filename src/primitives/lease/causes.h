#pragma once
#include "base/error.h"

namespace warren::lease::causes {

inline constexpr Cause fenced("lease.fenced");  // a newer token has written since

}  // namespace warren::lease::causes
