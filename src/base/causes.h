#pragma once
#include "base/error.h"

namespace warren::causes {

inline constexpr Cause bad_setting("config.bad_setting");
inline constexpr Cause no_resources(
    "host.no_resources");  // no file, pipe, process or disk space available

}  // namespace warren::causes
