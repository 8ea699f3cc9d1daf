#include "proof/testkit/failure.h"

#include <cstdio>
#include <cstdlib>

namespace warren::inline testkit {

void fail_test(const std::string& what) {
  if (failure_hooks.on_failure) failure_hooks.on_failure(what);
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

bool test_has_failed() { return failure_hooks.has_failed && failure_hooks.has_failed(); }

}  // namespace warren::inline testkit
