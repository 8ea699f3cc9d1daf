#pragma once
// Where the orchestrator of an instance writes its log: STATE/PREFIX-NAME.log. The logs of earlier
// runs are in .1, .2, …
#include <filesystem>
#include <string>
#include <vector>

namespace warren::cli {

std::filesystem::path daemon_log(const std::filesystem::path& folder, const std::string& prefix,
                                 const std::string& name);
// Moves the log of a daemon that has just acquired its name into place. The existing logs shift
// back, and the oldest is deleted.
void place_daemon_log(const std::filesystem::path& written, const std::filesystem::path& place);
// The logs that exist, the oldest first.
std::vector<std::filesystem::path> daemon_logs(const std::filesystem::path& place);
// Called by the daemon now and then. If its log file has grown beyond the limit, moves the contents
// to .1 and starts over with an empty file. Does nothing if the descriptor is not a regular file.
void bound_daemon_log(int descriptor, std::size_t most = 16u << 20);

}  // namespace warren::cli
