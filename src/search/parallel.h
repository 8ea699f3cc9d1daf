#pragma once
// One piece of work in a few threads of its own.
#include <functional>

#include "base/error.h"

namespace warren::search {

// Runs work(0) … work(count - 1), each in its own thread, and waits for all of them. The first
// error is returned; memory that cannot be had is Errc::overloaded.
Result<> in_parallel(int count, const std::function<Result<>(int)>& work);

}  // namespace warren::search
