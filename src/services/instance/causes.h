#pragma once
#include "base/error.h"

namespace warren::instance::causes {

inline constexpr Cause name_taken("instance.name_taken");            // the subject is the name
inline constexpr Cause workspace_taken("instance.workspace_taken");  // and here the one who has it

}  // namespace warren::instance::causes
