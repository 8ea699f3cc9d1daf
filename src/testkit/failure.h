#pragma once
// How the kit ends a test: like a failed REQUIRE, with a text that says what was seen.
#include <string>

namespace warren::inline testkit {

// Outside of a test case (in a benchmark) it prints the text and aborts.
[[noreturn]] void fail_test(const std::string& what);

// True from the first failed assertion of the running test case on.
bool test_has_failed();

}  // namespace warren::inline testkit
