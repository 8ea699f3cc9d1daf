#pragma once
#include "base/error.h"

namespace warren::rpc::causes {

inline constexpr Cause status("rpc.status");  // the subject is what the server, or gRPC, said

}  // namespace warren::rpc::causes
