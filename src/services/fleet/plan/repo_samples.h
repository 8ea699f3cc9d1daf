#pragma once
// Numbers of single repositories for Prometheus, in its text format: to be put behind that of Metrics. Each
// costs a series, so that whoever shows them shows some of them only.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warren::fleet {

// How many there are by default: the largest.
inline constexpr std::size_t usual_repo_metrics = 1'000;

struct RepoSample {
  std::string_view repo;
  int slot = 0;
  std::string_view node;
  std::uint64_t value = 0;
};
// warren_fleet_repo_NAME{repo="…",slot="…",node="…"}, all of them; empty: there are none.
std::string repo_family(std::string_view name, std::string_view help,
                        const std::vector<RepoSample>& samples);

}  // namespace warren::fleet
