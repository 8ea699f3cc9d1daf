#pragma once
// The way out of an error, and what the program exits with.
#include <string>
#include <string_view>

#include "base/error.h"

namespace warren::cli {

// Promised in `warren --help` and docs/cli.md.
enum class Exit { ok = 0, failed = 1, usage = 2, unreachable = 3, denied = 4 };
Exit exit_for(const Error& error);
// For a person; empty when the error itself says it.
std::string hint_for(const Error& error, const std::string& command = "warren");
// Every cause that a module declares has a row in the table, if only to say that it needs no hint.
// Empty for a word that no row has.
Cause cause_named(std::string_view word);

// An error on its way from a child that is this program, too: one line, and what it says again.
std::string line_of(const Error& error);
Error error_in(std::string_view line);

}  // namespace warren::cli
