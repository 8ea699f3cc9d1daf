#pragma once
// A child process that cannot outlive the test.
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace warren::inline testkit {

struct Program {
  std::vector<std::string> argv;              // the first word is looked up in $PATH
  std::filesystem::path log;                  // gets what it writes to stdout and stderr, appended
  std::vector<std::string> environment = {};  // "NAME=value", added to our own
};

class Process {
 public:
  // Fails the test when the program cannot be executed. The child leads a process group of its own,
  // inherits no descriptor, and is killed by the kernel when the thread that started it ends.
  explicit Process(const Program& program);
  ~Process();  // kills it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Returns once the child has stopped: from then on it answers nothing.
  void pause();
  void resume();
  bool is_paused() const { return paused_; }
  // SIGKILL for it and its process group, and waits for its end.
  void kill();
  // SIGTERM, resumed if it was paused. Does not wait.
  void terminate();
  // The exit code, or 128 + the signal that killed it. Fails the test when it is alive at the
  // limit.
  int wait(Clock::duration limit = 10s);
  // A paused process is alive.
  bool alive();

  pid_t pid() const { return pid_; }
  // What the child has written so far, or its last 4000 bytes.
  std::string log_text() const;

 private:
  // Looks whether the child has ended, stopped or gone on; `block` waits for the next such change.
  void observe(bool block);

  std::string name_;
  std::filesystem::path log_;
  pid_t pid_ = -1;
  bool paused_ = false;
  std::optional<int> exit_code_;
};

}  // namespace warren::inline testkit
