#pragma once
// Lua scripts of a ModelRedis, in the real Lua 5.1 with what Redis puts around it.
//
// Each thread has one Lua state for all its models, and a script is compiled once. Nothing a script
// does outlives it: globals cannot be written, and chance and time come in as arguments.
#include <span>
#include <string_view>

#include "proof/sim/model_command.h"
#include "redis/script.h"

namespace warren::sim {

// Commands that the script calls are part of the execution.
Reply run_script(Execution& x, std::string_view source, Args keys, Args args);

// From now on this thread runs it by its hash too.
void know_script(const redis::Script& script);
Reply run_known_script(Execution& x, std::string_view hash, Args keys, Args args);

}  // namespace warren::sim
