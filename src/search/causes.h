#pragma once
#include "base/error.h"

namespace warren::search::causes {

inline constexpr Cause bad_query("search.bad_query");  // the subject is the column, counted from 1

}  // namespace warren::search::causes
