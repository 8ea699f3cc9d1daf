#pragma once
// What to do about an error, and the program's exit code.
#include <string>
#include <string_view>

#include "base/error.h"

namespace warren::cli {

// Promised in `warren --help` and docs/cli.md.
enum class Exit { ok = 0, failed = 1, usage = 2, unreachable = 3, denied = 4 };
Exit exit_for(const Error& error);
// For a person. Empty if the error itself says what to do.
std::string hint_for(const Error& error, const std::string& command = "warren");
// Every cause that a module declares has a row in the table, even if it needs no hint. Returns an
// empty Cause for an unknown word.
Cause cause_named(std::string_view word);

// Passes an error from a child process of this program: as one line, and back.
std::string line_of(const Error& error);
Error error_in(std::string_view line);

}  // namespace warren::cli
