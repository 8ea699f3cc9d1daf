#pragma once
// Where the orchestrator of an instance writes its log: STATE/PREFIX-NAME.log, and the runs before
// this one in .1, .2, … behind it.
#include <filesystem>
#include <string>
#include <vector>

namespace warren::cli {

std::filesystem::path daemon_log(const std::filesystem::path& folder, const std::string& prefix,
                                 const std::string& name);
// The log of a daemon that has just got its name takes its place; what was there moves back, and
// the oldest goes.
void place_daemon_log(const std::filesystem::path& written, const std::filesystem::path& place);
// Those that exist, the oldest first.
std::vector<std::filesystem::path> daemon_logs(const std::filesystem::path& place);
// For the daemon, now and then: if what it writes to is a file that has grown beyond the bound, all
// of it becomes .1 and it goes on at the start. Does nothing if the descriptor is anything else.
void bound_daemon_log(int descriptor, std::size_t most = 16u << 20);

}  // namespace warren::cli
