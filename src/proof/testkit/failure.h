#pragma once
// How the kit ends a test: like a failed REQUIRE, with a text that says what was seen.
#include <string>

namespace warren::inline testkit {

// Outside a test case (in a benchmark, in `warren torture`) prints the text and aborts, after
// calling the failure hook if there is one.
[[noreturn]] void fail_test(const std::string& what);

// True once an assertion of the running test case has failed.
bool test_has_failed();

// What a program that runs tests, or something like them, does about a failure. Set before anything
// runs. In the header, so that a test program without the kit can share the main function.
struct FailureHooks {
  void (*on_failure)(const std::string& what) = nullptr;  // if it returns, the program aborts
  bool (*has_failed)() = nullptr;
};
inline FailureHooks failure_hooks;

}  // namespace warren::inline testkit
