#pragma once
// A folder for what a command and its children write, which goes however the command ends.
#include <sys/types.h>

#include <filesystem>
#include <utility>

#include "base/error.h"

namespace warren::cli {

// $TMPDIR of this process and its children from here on, below what that was. A process of its own
// waits for our end, which may be a signal, and removes it. WARREN_KEEP=1: it stays.
class Scratch {
 public:
  // Before there are threads.
  static Result<Scratch> create();
  // Waits until it is removed.
  ~Scratch();
  Scratch(Scratch&& other) noexcept
      : lifeline_(std::exchange(other.lifeline_, -1)), janitor_(std::exchange(other.janitor_, 0)) {}
  Scratch& operator=(Scratch&&) = delete;

 private:
  Scratch(int lifeline, pid_t janitor) : lifeline_(lifeline), janitor_(janitor) {}
  int lifeline_;  // closed by our end
  pid_t janitor_;
};

}  // namespace warren::cli
