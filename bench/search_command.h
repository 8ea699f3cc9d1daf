#pragma once
// Runs other programs and times them from start to end.
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace warren::bench {

struct Command {
  std::vector<std::string> argv;
  // How to parse its output: "path NUL count", or one path per line.
  enum class Prints : std::uint8_t { counts, paths } prints = Prints::counts;
  std::chrono::minutes longest{2};
};

struct Outcome {
  double seconds = 0;
  int code = 0;
  std::string output;
};
// Reads all its output. Errors: unavailable if there is no such program, timeout if it takes longer
// than allowed.
Result<Outcome> run_command(const Command& command);

// The number of matching lines in each file (1 for a path alone), as a program printed them.
using Counts = std::map<std::string, std::uint64_t, std::less<>>;
Counts read_counts(const Command& command, std::string_view output);
// Returns "" if they are equal, otherwise the number of files that differ, and one of them.
std::string difference(const Counts& ours, const Counts& theirs);

}  // namespace warren::bench
