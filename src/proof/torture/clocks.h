#pragma once
// Makes the wall clocks of child processes step, and run too fast or too slow.
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "proof/testkit/temp_folder.h"

namespace warren::torture {

class Clocks {
 public:
  // The path of the library clock_shim.cc; empty: all clocks are true.
  explicit Clocks(std::filesystem::path shim) : shim_(std::move(shim)) {}
  bool can_lie() const { return !shim_.empty(); }
  // The environment of processes whose clocks this controls.
  std::vector<std::string> environment() const;
  // Sets the time of day off by `offset`, and from now on by `drift` more for each second.
  void set(pid_t process, std::chrono::microseconds offset, double drift = 0) const;

 private:
  TempFolder folder_;
  std::filesystem::path shim_;
};

}  // namespace warren::torture
