#pragma once
// A program run as a child, with everything that it starts.
//
//   us ── fork ──▶ tool ── fork ──▶ helper       All of them are one process group, which is killed
//    │              │ exits 0         │          whole: at the deadline, when too much is written,
//    │◀─ pidfd ─────┘                 │          when we are cancelled, and when the tool has ended
//    │── SIGKILL to the group ───────▶│          while a helper still holds its pipes.
//    │── reap
//
// The leader is reaped last: until then nobody else can have its number, so a signal never meets a
// stranger. Rejected: SIGCHLD, of which a process has only one.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/task.h"

namespace warren::agent {

struct ToolTerms {
  std::vector<std::string> argv;  // no shell; the first is looked up in our $PATH
  std::string input = {};         // its standard input, then the end of the file
  std::filesystem::path folder = ".";
  std::map<std::string, std::string> environment = {};  // all of it
  Clock::duration timeout = 5min;
  Clock::duration grace = 2s;           // between SIGTERM and SIGKILL
  std::size_t most_output = 10u << 20;  // of each stream
};

struct ToolEnd {
  int exit_code = 0;  // -1 when a signal ended it
  int signal = 0;
  bool timed_out = false, wrote_too_much = false;
  std::string out, err;
};

// Returns when the tool has ended, and with it its process group. A helper that left the group
// (setsid) is not known to us; it delays nothing. Errc::unavailable: it cannot be started;
// Errc::cancelled: the caller was, and the tool is gone. When we die, the kernel kills the tool.
Async<ToolEnd> run_tool(ToolTerms terms);

// PATH, HOME, LANG and TERM of the host, and nothing else of it: neither where our Redis is nor its
// password.
std::map<std::string, std::string> least_environment();

}  // namespace warren::agent
