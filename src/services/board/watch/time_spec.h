#pragma once
// When, as a person says it: a moment, or how long ago.
#include <string_view>

#include "services/board/store/types.h"

namespace warren::watch {

// 2026-01-31T23:59:59.5+01:00 (RFC 3339), or a Go duration before now: 90s, 1h30m, 1.5h, 0. A
// negative one lies in the future. Errc::invalid says what would be right.
Result<board::UnixTime> parse_time_spec(std::string_view text, board::UnixTime now);

// 2026-01-31T23:59:59.123Z
std::string rfc3339(board::UnixTime time);
// 23:59:59.123, as clocks on the wall here show it.
std::string local_time(board::UnixTime time);

}  // namespace warren::watch
