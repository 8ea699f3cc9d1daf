#pragma once
// One process that wants leases, holds them, writes under them and lets them go, and writes down
// what it sees: the victim of the faults.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "history/history.h"
#include "redis/settings.h"

namespace warren::torture {

struct LeaseWorker {
  redis::Settings servers;
  history::ProcessId process = 0;
  std::uint64_t seed = 0;
  history::LockId locks = 2;
  std::chrono::milliseconds ttl = 1s;
  bool replicated = false;
  bool is_reckless = false;  // a planted mistake: writes without showing its token
  std::filesystem::path journal;
};

// The first word on the command line of a worker, and all of them.
inline constexpr const char* lease_worker_word = "torture-lease-worker";
std::vector<std::string> words_of(const LeaseWorker& worker);
Result<LeaseWorker> lease_worker_from(std::span<const std::string> words);

// The names in Redis.
std::string lease_key(history::LockId lock);
std::string log_key(history::LockId lock);
// One entry of the log that a lock guards: the token and the attempt that wrote it.
std::string log_entry(history::Token token, history::ProcessId process, history::AttemptId attempt);

// Until SIGTERM; the exit code of the process.
int run(const LeaseWorker& worker);

}  // namespace warren::torture
