#pragma once
// Numbers of single repositories for Prometheus: of the largest, since each costs a series for every
// number. All of them are in /v1/repos.
#include <cstddef>
#include <string>

#include "services/fleet/router/table.h"

namespace warren::fleet {

// In the text format, to be put behind that of Metrics. By memory, then by name.
std::string repo_metrics(const Table& table, std::size_t most);

}  // namespace warren::fleet
