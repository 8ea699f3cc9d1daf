#pragma once
#include "base/error.h"

namespace warren::board::causes {

inline constexpr Cause missing("board.missing");      // the subject is the key that is not there
inline constexpr Cause bad_field("board.bad_field");  // the subject is the field, and what is wrong
inline constexpr Cause bad_times("board.bad_times");  // --since and --until

}  // namespace warren::board::causes
