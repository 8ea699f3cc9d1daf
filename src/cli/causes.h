#pragma once
#include "base/error.h"

namespace warren::cli::causes {

inline constexpr Cause bad_words("cli.bad_words");  // options that exclude each other
inline constexpr Cause not_ready("cli.not_ready");  // what it started was not ready in time

}  // namespace warren::cli::causes
