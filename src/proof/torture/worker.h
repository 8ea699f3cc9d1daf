#pragma once
// The processes that are tortured: this program again, with a command line that makes it use
// leases, a mirror, a catalog or once, and record what it sees.
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "proof/history/history.h"
#include "redis/settings.h"

namespace warren::torture {

struct WorkerTerms {
  std::string what;  // lease_worker, mirror_worker, catalog_worker or once_worker
  redis::Settings servers;
  history::ProcessId process = 0;
  std::uint64_t seed = 0;
  history::LockId locks = 3;
  std::size_t log_entries = 100'000;   // of mirrors
  std::chrono::milliseconds ttl = 1s;  // of leases; other workers derive their patience from it
  bool replicated = false;
  bool is_reckless = false;  // a planted mistake: writes without showing its token
  std::string catalog = {};  // its URL; empty: it is on `servers`
  std::filesystem::path journal;
};
// The first word on their command lines.
inline constexpr const char* lease_worker = "torture-lease-worker";
inline constexpr const char* mirror_worker = "torture-mirror-worker";
inline constexpr const char* catalog_worker = "torture-catalog-worker";
inline constexpr const char* once_worker = "torture-once-worker";

// Converts the terms to words, and back.
std::vector<std::string> words_of(const WorkerTerms& terms);
Result<WorkerTerms> worker_from(std::span<const std::string> words);

// Returns the exit code, if these are the words of a worker.
std::optional<int> run_as_worker(std::span<const std::string> words);

}  // namespace warren::torture
