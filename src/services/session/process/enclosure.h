#pragma once
// A process that sees little: its own files, the programs of this machine, and its own children.
//
//   what it sees                                  what it does not
//   /workspace, rw: its folder                    the folders of other sandboxes, and homes
//   /usr /bin /lib /etc … and what was            sockets and files of the private Redis
//     allowed by name, read only                  other processes, and their environments
//   /tmp /dev /proc, its own                      any capability, and a way to get one
//
// Made by the kernel's namespaces: user, mount, process, IPC and host name. The network is the
// machine's: a sandbox has ports of its own there, and whoever talks to it shows its key. Rejected: a
// network of its own, which has no way out without a program that the machine may not have.
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace warren::session {

struct Enclosure {
  bool is_isolated = true;
  std::filesystem::path work;                     // what /workspace is
  std::vector<std::filesystem::path> shown = {};  // besides those of the system, read only
  std::string host_name = {};
  std::vector<std::string> argv = {};
  std::map<std::string, std::string> environment = {};  // all of it
  std::string working_dir = {};
  std::uint64_t most_memory = 0;  // bytes of data of each process; 0: as the machine has it
  int most_processes = 0;         // likewise
  int most_files = 4096;
  int user = 10001, group = 10001;  // as it sees itself
  int output = -1;                  // what it writes goes there
};

// Starts it: the child leads a process group and a session of its own, and ends with the thread that
// started it. Isolated, the child is the first process of its namespace: all others end with it, and
// SIGTERM is handed on to all of them. Errc::denied: this machine does not permit namespaces;
// Errc::invalid: the program cannot be started.
Result<pid_t> enclose(const Enclosure& enclosure);

// Whether it would work here.
Result<> check_isolation();

}  // namespace warren::session
