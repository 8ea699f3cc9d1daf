#pragma once
// A folder for the files of a command and its children. It is removed however the command ends.
#include <sys/types.h>

#include <filesystem>
#include <utility>

#include "base/error.h"

namespace warren::cli {

// Becomes the $TMPDIR of this process and its children, below the previous one. A separate process
// waits for our end, even by a signal, and removes the folder. WARREN_KEEP=1 keeps it.
class Scratch {
 public:
  // Call it before any thread is started.
  static Result<Scratch> create();
  // Waits until the folder is removed.
  ~Scratch();
  Scratch(Scratch&& other) noexcept
      : lifeline_(std::exchange(other.lifeline_, -1)), janitor_(std::exchange(other.janitor_, 0)) {}
  Scratch& operator=(Scratch&&) = delete;

 private:
  Scratch(int lifeline, pid_t janitor) : lifeline_(lifeline), janitor_(janitor) {}
  int lifeline_;  // closed when we end
  pid_t janitor_;
};

}  // namespace warren::cli
