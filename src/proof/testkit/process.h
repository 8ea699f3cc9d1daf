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
  std::vector<std::string> argv;  // the first word is looked up in $PATH
  std::filesystem::path log;      // receives what it writes to stdout and stderr, appended
  std::vector<std::string> environment = {};  // "NAME=value", added to our own
};

class Process {
 public:
  // Fails the test if the program cannot be executed. The child leads a process group of its own,
  // inherits no descriptor, and is killed by the kernel when the thread that started it ends.
  explicit Process(const Program& program);
  ~Process();  // kills it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Returns once the child has stopped: from then on it answers nothing.
  void pause();
  void resume();
  bool is_paused() const { return paused_; }
  // Kills it and its process group with SIGKILL, and waits for its end.
  void kill();
  // Sends SIGTERM, and resumes it if it was paused. Does not wait.
  void terminate();
  // Returns the exit code, or 128 + the signal that killed it. Fails the test if it is still alive
  // at the limit.
  int wait(Clock::duration limit = 10s);
  // True for a paused process.
  bool alive();

  pid_t pid() const { return pid_; }
  // What the child has written so far, or the last 4000 bytes of it.
  std::string log_text() const;

 private:
  // Checks whether the child has ended, stopped or continued; `block` waits for the next such
  // change.
  void observe(bool block);

  std::string name_;
  std::filesystem::path log_;
  pid_t pid_ = -1;
  bool paused_ = false;
  std::optional<int> exit_code_;
};

}  // namespace warren::inline testkit
