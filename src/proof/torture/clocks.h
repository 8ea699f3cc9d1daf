#pragma once
// The wall clocks of child processes, which step and run too fast or too slow on demand.
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "proof/testkit/temp_folder.h"

namespace warren::torture {

class Clocks {
 public:
  // Of the library clock_shim.cc; empty: all clocks are true.
  explicit Clocks(std::filesystem::path shim) : shim_(std::move(shim)) {}
  bool can_lie() const { return !shim_.empty(); }
  // For the processes whose clocks are to be ours.
  std::vector<std::string> environment() const;
  // The time of day is off by so much, and from now on by `drift` more for each second.
  void set(pid_t process, std::chrono::microseconds offset, double drift = 0) const;

 private:
  TempFolder folder_;
  std::filesystem::path shim_;
};

}  // namespace warren::torture
