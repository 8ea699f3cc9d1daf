#pragma once
// Boards that instances left behind: their contents, and the folders they worked in.
#include "cli/instance/overview.h"

namespace warren::cli {

// Claims that are not finished, and artefacts without a claim.
std::size_t open_work(const Overview& board);
// "12 artefacts, 3 open (1 untaken)"
std::string work_on(const Overview& board);

// The boards that stopped instances left in this folder. The first one is the one to continue: the
// latest with open work, otherwise the latest that is not empty.
Async<std::vector<Overview>> boards_left_in(redis::Client& client, std::string prefix,
                                            std::string folder);

}  // namespace warren::cli
