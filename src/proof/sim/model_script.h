#pragma once
// Lua scripts of a ModelRedis, in the real Lua 5.1 with what Redis adds to it.
//
// Each thread has one Lua state for all its models, and compiles a script once. A script leaves
// nothing behind: globals cannot be written, and chance and time are arguments.
#include <span>
#include <string_view>

#include "proof/sim/model_command.h"
#include "redis/script.h"

namespace warren::sim {

// The commands that the script calls are part of the execution.
Reply run_script(Execution& x, std::string_view source, Args keys, Args args);

// From now on this thread can also run the script by its hash.
void know_script(const redis::Script& script);
Reply run_known_script(Execution& x, std::string_view hash, Args keys, Args args);

}  // namespace warren::sim
