#pragma once
// The small program between a replica and a sandbox: this program again, under another first word. It
// is a child of nobody who may end, so a replica comes and goes and the sandbox stays. It
//
//   holds the lock of the session's name for as long as anything of the sandbox lives,
//   refuses to start what lives already, or was stopped since it was asked for,
//   claims the ports, encloses the sandbox, and says what becomes of it (states/<name>.json),
//   keeps the end of what the sandbox writes, and slows down whoever writes too fast,
//   ends all of it when told to through its pipe, or when the first process ends.
//
// Killed, it takes the sandbox with it: no sandbox lives whose lock is free.
#include <optional>
#include <span>
#include <string>

namespace warren::session {

inline constexpr const char* shim_word = "session-shim";
inline constexpr const char* shim_trial = "--try";  // says whether isolation works here

// The exit code, if these are the words of a shim. Before there are threads.
std::optional<int> run_as_shim(std::span<const std::string> words);

}  // namespace warren::session
