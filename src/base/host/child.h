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
  std::vector<std::string> environment;  // "NAME=value"; all that the child gets
  std::size_t memory_bytes = 0;          // of its address space; 0: as much as it likes
  std::size_t file_bytes = 1u << 20;     // of a file that it writes
  std::vector<int> descriptors = {};     // ours, which it gets as 3, 4, … whatever they are here
  int stop = -1;                         // one of ours; once it is readable, nobody waits any more
  // run_child() ends a child that is silent, uses no processor time and does not wait for a disk for
  // this long, twice in a row: it has opened a pipe to which nothing is written. 0: no such check.
  std::chrono::seconds idle{0};
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
  std::string complaint() const;  // at most 1 KB of that, as one line
  // The processor time that it has used; empty if it runs, waits for a disk, or cannot be looked at.
  std::string activity() const;

 private:
  Child() = default;

  pid_t pid_ = -1;
  int stop_ = -1;  // not owned: not closed here
  int input_ = -1, output_ = -1, errors_ = -1;
};

// Kills all running children, for a process that is about to exit. Safe in a signal handler.
void kill_children();

// Runs it to its end with an input and gives its output; refused with its own words otherwise.
// Errc::timeout: it was silent for five minutes, or idle. Errc::overloaded: it says more.
Result<std::string> run_child(const ChildTerms& terms, std::string_view input,
                              std::size_t most_output);
// The same, but passes the output to `take` piece by piece as it comes. An error of `take` ends the
// child.
using TakeOutput = std::function<Result<>(std::string_view piece)>;
Result<> run_child(const ChildTerms& terms, std::string_view input, const TakeOutput& take);

}  // namespace warren
