#pragma once
// Boards that instances left behind: what is on them, and where they were at work.
#include "cli/instance/overview.h"

namespace warren::cli {

// Claims that are not over, and artefacts that nobody has claimed yet.
std::size_t open_work(const Overview& board);
// "12 artefacts, 3 open (1 untaken)"
std::string work_on(const Overview& board);

// Those that were left in this folder by instances that run no more; first the one to go on with:
// the latest that has open work, else the latest with anything on it.
Async<std::vector<Overview>> boards_left_in(redis::Client& client, std::string prefix,
                                            std::string folder);

}  // namespace warren::cli
