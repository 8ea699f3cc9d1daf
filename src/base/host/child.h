#pragma once
// A child process that is fed and read through pipes.
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace warren {

struct ChildTerms {
  std::vector<std::string> argv;         // the first word is looked up in $PATH
  std::vector<std::string> environment;  // "NAME=value"; the child gets nothing else
  std::size_t memory_bytes = 0;          // limit on its address space; 0 for no limit
  std::size_t file_bytes = 1u << 20;     // limit on each file it writes
  std::vector<int> descriptors = {};     // ours; the child gets them as 3, 4, …
  int stop = -1;                         // one of ours; waits end when it is readable
};

// The child inherits only the pipes and the listed descriptors. Destroying this object kills the
// child and everything it started in its process group.
class Child {
 public:
  // Errors: refused if the program does not exist, unavailable if it cannot be started.
  static Result<Child> start(const ChildTerms& terms);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) = delete;
  ~Child();  // kills it

  // Writes as much of the input as the child accepts and reads what it has written. Waits until one
  // of the two is possible, so that neither side ever blocks the other. Written bytes are removed
  // from `input`; when it is empty and `is_all` is set, the child sees the end of its input.
  // Returns 0 when the child has closed its output. Errors: timeout if neither was possible by the
  // deadline, cancelled if `stop` became readable.
  Result<std::size_t> exchange(std::string_view& input, bool is_all, char* into, std::size_t size,
                               Clock::time_point deadline = Clock::time_point::max());
  // Waits until the child exits. Returns its exit code, or 128 + the signal.
  int wait();
  // The same, with the errors of exchange().
  Result<int> wait(Clock::time_point deadline);
  // The first 64 KB of its error output. The rest is lost.
  std::string errors() const;
  std::string complaint() const;  // at most 1 KB of errors(), as one line

 private:
  Child() = default;

  pid_t pid_ = -1;
  int stop_ = -1;  // not owned: not closed here
  int input_ = -1, output_ = -1, errors_ = -1;
};

// Kills all running children, for a process that is about to exit. Safe in a signal handler.
void kill_children();

// Runs the program to its end with this input and returns its output. If it fails, the error is
// `refused` and quotes what the program wrote. Errc::timeout: it was silent for five minutes.
Result<std::string> run_child(const ChildTerms& terms, std::string_view input,
                              std::size_t most_output);

}  // namespace warren
