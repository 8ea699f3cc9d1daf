#pragma once
// Processes that are known to be ours. A number alone says nothing: it is given to others once its
// process is gone. So a process is a number and when it began, and what is signalled is first opened,
// then looked at, and signalled through what was opened.
#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace warren::session {

// In ticks since the machine started; 0: there is no such process, or it has ended and only waits to
// be noticed.
std::uint64_t began_at(pid_t pid);

std::vector<pid_t> children_of(pid_t pid);
// All that descend from this one.
std::vector<pid_t> descendants_of(pid_t pid);

// Whether one of them listens on this TCP port of the machine.
bool listens(const std::vector<pid_t>& processes, unsigned short port);

// The variable that every process of a sandbox begins with, and of it the value.
inline constexpr std::string_view incarnation_variable = "OH_SANDBOX_INCARNATION";

inline constexpr auto leftovers_time = 10s;  // enough for them to end

// Ends what is left of a sandbox whose shim was killed: the process, and all whose environment names
// the incarnation. True: nothing of it is left.
bool end_leftovers(pid_t main, std::uint64_t began, std::string_view incarnation,
                   Clock::time_point deadline);

}  // namespace warren::session
