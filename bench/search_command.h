#pragma once
// Other people's programs, timed from their start to their end.
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace warren::bench {

struct Command {
  std::vector<std::string> argv;
  // How what it prints is read: "path NUL count", or a path in each line.
  enum class Prints : std::uint8_t { counts, paths } prints = Prints::counts;
  std::chrono::minutes longest{2};
};

struct Outcome {
  double seconds = 0;
  int code = 0;
  std::string output;
};
// Reads all it prints. Errc::unavailable: there is no such program. Errc::timeout: it takes longer
// than it may.
Result<Outcome> run_command(const Command& command);

// Matching lines (1 for a path alone) of each file, as a program printed them.
using Counts = std::map<std::string, std::uint64_t, std::less<>>;
Counts read_counts(const Command& command, std::string_view output);
// Empty when equal; otherwise in how many files they differ, and one of them.
std::string difference(const Counts& ours, const Counts& theirs);

}  // namespace warren::bench
