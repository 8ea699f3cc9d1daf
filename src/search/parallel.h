#pragma once
// Runs one piece of work in several threads of its own.
#include <functional>

#include "base/error.h"

namespace warren::search {

// Runs work(0) … work(count - 1), each in its own thread, and waits for all of them. Returns the
// first error. A failed allocation becomes Errc::overloaded.
Result<> in_parallel(int count, const std::function<Result<>(int)>& work);

}  // namespace warren::search
