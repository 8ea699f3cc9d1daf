#pragma once
// What `warren torture` can run: for each primitive a round on real servers, and a simulated
// schedule.
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "proof/history/checkers.h"
#include "proof/torture/catalog_arena.h"
#include "proof/torture/round.h"

namespace warren::torture {

struct Schedule {
  std::size_t events = 0;
  history::Verdict violation;
  std::vector<const char*> faults = {};  // kinds that occurred, each once
};

struct Target {
  std::string name;
  std::vector<std::string> checked;  // invariants of its simulation
  // Calls `tick` from time to time.
  std::function<RoundReport(std::uint64_t seed, std::function<void()> tick)> run_round = {};
  std::function<Schedule(std::uint64_t seed)> run_schedule = {};  // from any thread
  std::vector<const char*> faults = {};  // all kinds that a schedule may have
};

// "lease", "mirror", "catalog", "once" or "all"; a catalog uses this engine. Errc::invalid: a
// server that real rounds need is not installed.
Result<std::vector<Target>> targets_for(const std::string& what, bool is_sim,
                                        CatalogEngine engine = CatalogEngine::redis);

// One line that explains "I1" and so on.
std::string meaning_of(const std::string& invariant);

struct SimulationOptions {
  std::uint64_t first_seed = 0;
  std::uint64_t schedules = 0;  // 0: as many as the time allows
  Clock::duration length{};     // ignored if there is a number of schedules
};
struct SimulationResult {
  std::uint64_t schedules = 0, events = 0;
  std::uint64_t seed = 0;  // of the violation: the lowest one found
  history::Verdict violation;
  // In how many schedules each kind occurred, including kinds that never did.
  std::map<std::string, std::uint64_t> faults = {};
};
// Uses all cores. `progress` is called in the caller's thread.
SimulationResult simulate_many(
    const Target& target, const SimulationOptions& options,
    const std::function<void(double part, std::uint64_t done)>& progress);

}  // namespace warren::torture
