#pragma once
// Leases under real faults: worker processes contend on private servers while servers, links,
// clocks and the workers themselves fail; then what happened is judged.
//
//   seed ──▶ servers ──▶ workers ──▶ faults … calm ──▶ histories ──▶ verdict
//
// A round is what one seed gives: the topology, the faults and their times, and what workers
// choose. The threads of a machine are not in the seed, so it repeats the weather and not every
// step.
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "history/checkers.h"
#include "torture/arena.h"

namespace warren::torture {

struct RoundOptions {
  std::uint64_t seed = 0;
  Clock::duration faults_for = 8s;        // then a calm, and the judgement
  std::filesystem::path binary;           // runs as a worker with worker_word
  std::filesystem::path clock_shim = {};  // empty: clocks do not step
  bool is_reckless = false;               // the workers', to see that it is found
};
// The first word on the command line of a worker.
inline constexpr const char* lease_worker_word = "torture-lease-worker";

struct RoundReport {
  std::string topology;
  std::map<std::string, std::size_t> faults;  // how many of each
  std::map<std::string, std::size_t> counts;  // of what the workers did
  std::vector<std::string> checked;           // "I1", …
  history::Verdict violation;
};

// Fails (testkit) when the servers cannot be had.
RoundReport torture_lease(const RoundOptions& options);
ArenaKind arena_of(std::uint64_t seed);

}  // namespace warren::torture
