#pragma once
// Nodes as processes of this machine.
#include <sys/types.h>

#include <string>
#include <vector>

#include "services/fleet/autoscale/autoscaler.h"

namespace warren::fleet {

class LocalDriver : public ScaleDriver {
 public:
  // `words`: the program and its arguments; {} in one of them becomes the number of the node. The
  // environment is ours.
  explicit LocalDriver(std::vector<std::string> words) : words_(std::move(words)) {}
  // Does not end them: see end().
  ~LocalDriver() override = default;

  // Starts what is missing, also in place of one that died. Ends one at a time, the youngest, with
  // SIGTERM: it hands over what it has, and only when it is gone the next one goes.
  // Errc::unavailable: one cannot be started.
  Async<> set(ScaleWish wish) override;
  // Ends all of them, together: what they have is not needed any more. True: they are gone.
  bool end();

 private:
  struct Process {
    pid_t pid;
    int number;
    bool is_leaving = false;
  };
  Result<> start();
  void bury();  // those that have ended

  std::vector<std::string> words_;
  std::vector<Process> processes_;
};

}  // namespace warren::fleet
