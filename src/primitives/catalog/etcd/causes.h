#pragma once
#include "base/error.h"

namespace warren::etcd::causes {

inline constexpr Cause compacted("etcd.compacted");
inline constexpr Cause behind("etcd.behind");      // the member has not seen that revision yet
inline constexpr Cause no_space("etcd.no_space");  // nothing was done
inline constexpr Cause busy("etcd.busy");          // nothing was done either
inline constexpr Cause not_connected("etcd.not_connected");

}  // namespace warren::etcd::causes
