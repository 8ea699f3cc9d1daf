#pragma once
#include "base/error.h"

namespace warren::cli::causes {

inline constexpr Cause bad_words("cli.bad_words");  // options that do not go together
inline constexpr Cause not_ready("cli.not_ready");  // what the command started, in the time it had

}  // namespace warren::cli::causes
