#pragma once
// How the kit ends a test: like a failed REQUIRE, with a text that says what was seen.
#include <string>

namespace warren::inline testkit {

// Outside of a test case (in a benchmark, in `warren torture`) it prints the text and aborts,
// unless somebody wants to know first.
[[noreturn]] void fail_test(const std::string& what);

// True from the first failed assertion of the running test case on.
bool test_has_failed();

// What those who run tests, or something like them, do about a failure. Set before anything runs,
// and in the header, so that a test program without the kit can share the main function.
struct FailureHooks {
  void (*on_failure)(const std::string& what) = nullptr;  // if it returns, we abort
  bool (*has_failed)() = nullptr;
};
inline FailureHooks failure_hooks;

}  // namespace warren::inline testkit
