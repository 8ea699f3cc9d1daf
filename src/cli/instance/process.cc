#include "cli/instance/process.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <fstream>

#include "cli/instance/instances.h"

namespace warren::cli {

ProcessState process_of(const InstanceEntry& entry) {
  if (entry.host != host_name() || entry.orchestrator_pid <= 1) return ProcessState::unknown;
  if (kill(entry.orchestrator_pid, 0) != 0 && errno == ESRCH) return ProcessState::gone;
  std::ifstream file(fmt::format("/proc/{}/cmdline", entry.orchestrator_pid));
  if (!file) return ProcessState::unknown;
  // A process that has ended but was not waited for has no command line left.
  std::string words{std::istreambuf_iterator<char>(file), {}};
  return words.contains(std::string_view("\0orchestrate\0", 13)) ? ProcessState::lives
                                                                 : ProcessState::gone;
}

}  // namespace warren::cli
