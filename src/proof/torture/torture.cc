#include "proof/torture/torture.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>

#include "proof/torture/catalog_torture.h"
#include "proof/torture/lease_torture.h"
#include "proof/torture/mirror_torture.h"
#include "proof/torture/once_torture.h"
#include "proof/torture/schedules/catalog_sim.h"
#include "proof/torture/schedules/lease_sim.h"
#include "proof/torture/schedules/mirror_sim.h"
#include "proof/torture/schedules/once_sim.h"

namespace warren::torture {

namespace {

bool is_installed(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

RoundOptions round_options(std::uint64_t seed, std::function<void()> tick) {
  std::error_code ignored;
  auto binary = std::filesystem::read_symlink("/proc/self/exe", ignored);
  auto shim = binary.parent_path() / "warren-clock.so";
  RoundOptions options{.seed = seed, .binary = binary, .tick = std::move(tick)};
  if (std::filesystem::exists(shim, ignored)) options.clock_shim = shim;
  return options;
}

Target lease_target() {
  Target target{.name = "lease", .checked = {"I1", "I2", "I3", "I4", "I6", "I7", "I12"}};
  target.run_round = [](auto seed, auto tick) { return torture_lease(round_options(seed, tick)); };
  target.run_schedule = [](auto seed) { return simulate_leases(seed); };
  target.faults = lease_faults();
  return target;
}

Target mirror_target() {
  Target target{.name = "mirror", .checked = {"I5", "I10", "I11", "I12"}};
  target.run_round = [](auto seed, auto tick) { return torture_mirror(round_options(seed, tick)); };
  target.run_schedule = [](auto seed) {
    auto schedule = mirror::simulate(seed);
    return Schedule{schedule.events, std::move(schedule.violation), std::move(schedule.faults)};
  };
  auto faults = mirror::mirror_faults();
  target.faults.assign(faults.begin(), faults.end());
  return target;
}

Target catalog_target(CatalogEngine engine) {
  Target target{.name = "catalog", .checked = {"I13", "I14", "I15", "I16", "I17", "I18"}};
  target.run_round = [engine](auto seed, auto tick) {
    return torture_catalog(round_options(seed, tick), engine);
  };
  target.run_schedule = [](auto seed) { return simulate_catalog(seed); };
  target.faults = catalog_faults();
  return target;
}

Target once_target() {
  Target target{.name = "once", .checked = {"I19", "I20", "I21", "I22"}};
  target.run_round = [](auto seed, auto tick) { return torture_once(round_options(seed, tick)); };
  target.run_schedule = [](auto seed) { return simulate_once(seed); };
  target.faults = once_faults();
  return target;
}

}  // namespace

Result<std::vector<Target>> targets_for(const std::string& what, bool is_sim,
                                        CatalogEngine engine) {
  bool needs_redis = what != "catalog" || engine == CatalogEngine::redis;
  if (!is_sim && needs_redis && !is_installed("redis-server"))
    return fail(Errc::invalid,
                "redis-server is not installed; apt-get install redis-server, or use --sim");
  if (engine == CatalogEngine::etcd && !is_installed("etcd"))
    return fail(Errc::invalid, "etcd is not installed; apt-get install etcd-server etcd-client");
  std::vector<Target> targets;
  if (what == "lease" || what == "all") targets.push_back(lease_target());
  if (what == "mirror" || what == "all") targets.push_back(mirror_target());
  if (what == "catalog" || what == "all") targets.push_back(catalog_target(engine));
  if (what == "once" || what == "all") targets.push_back(once_target());
  return targets;
}

std::string meaning_of(const std::string& invariant) {
  static const std::map<std::string, std::string> meanings{
      {"I1", "a resource accepts no token older than one it accepted, and each from one owner"},
      {"I2", "tokens grow with every grant, over failovers too"},
      {"I3", "no two owners at once, except where servers lose data or their clocks step"},
      {"I4", "an owner is told of its loss no later than at its deadline"},
      {"I5", "what was acknowledged is in the log, except where servers lose data"},
      {"I6", "whoever waits is granted, or told, in time"},
      {"I7", "first come, first served"},
      {"I10", "each snapshot of a mirror is what the log says up to there, and knows its age"},
      {"I11", "reads do not go back, and see the own writes, or say that history was rewritten"},
      {"I12", "nothing is left behind"},
      {"I13",
       "no two nodes believe in a row at once, except where servers lose data or their clocks "
       "step"},
      {"I14", "epochs of a row grow with every change of owner, over failovers too; none twice"},
      {"I15", "a write under an epoch that is over is refused, and changes nothing"},
      {"I16", "a node past its lease, by its own clock, serves nothing"},
      {"I17",
       "who follows the changes sees a row's in order, and has in the end what the catalog has"},
      {"I18", "no row is offered that has an owner, and none stays without one when all is well"},
      {"I19",
       "no two create or change a thing at once, except where servers lose data or their clocks "
       "step"},
      {"I20", "all are given the winner's result; what is there is not created again"},
      {"I21", "whoever waits is answered or told by his deadline"},
      {"I22", "in the end there is a record of each resource, and of nothing else"},
  };
  auto found = meanings.find(invariant);
  return found == meanings.end() ? "" : found->second;
}

SimulationResult simulate_many(
    const Target& target, const SimulationOptions& options,
    const std::function<void(double part, std::uint64_t done)>& progress) {
  auto began = Clock::now();
  auto end = began + options.length;
  std::atomic<std::uint64_t> next = 0, done = 0;
  std::atomic<bool> has_failed = false;
  auto work = [&](SimulationResult& result) {
    while (!has_failed) {
      auto i = next++;
      if (options.schedules > 0 ? i >= options.schedules : Clock::now() >= end) return;
      auto schedule = target.run_schedule(options.first_seed + i);
      ++done;
      ++result.schedules;
      result.events += schedule.events;
      for (const auto* fault : schedule.faults) ++result.faults[fault];
      if (!schedule.violation) continue;
      result.seed = options.first_seed + i;
      result.violation = std::move(schedule.violation);
      has_failed = true;
    }
  };
  std::vector<SimulationResult> results(std::max(1U, std::thread::hardware_concurrency()));
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) threads.emplace_back(work, std::ref(result));
    while (!has_failed && (options.schedules > 0 ? done < options.schedules : Clock::now() < end)) {
      std::this_thread::sleep_for(20ms);
      double part = options.schedules > 0
                        ? double(done) / double(options.schedules)
                        : std::chrono::duration<double>(Clock::now() - began) / options.length;
      progress(part, done);
    }
  }
  SimulationResult all;
  for (const auto* fault : target.faults) all.faults[fault] = 0;
  for (auto& result : results) {
    all.schedules += result.schedules;
    all.events += result.events;
    for (auto& [name, count] : result.faults) all.faults[name] += count;
    if (result.violation && (!all.violation || result.seed < all.seed)) {
      all.seed = result.seed;
      all.violation = std::move(result.violation);
    }
  }
  return all;
}

}  // namespace warren::torture
