#pragma once
// Starting a child: descriptors, process group, signals.
#include <sys/types.h>

#include "services/board/agent/tool.h"

namespace warren::agent {

// A descriptor of ours, closed with it.
class File {
 public:
  explicit File(int descriptor = -1) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(other.release()) {}
  File& operator=(File&& other) noexcept;
  ~File();
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

struct Child {
  pid_t pid = -1;  // also its process group
  File process;    // readable when it has ended
  File out, err;   // what it writes
};

Result<Child> start_child(const ToolTerms& terms);

}  // namespace warren::agent
