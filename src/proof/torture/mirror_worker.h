#pragma once
// One process with a mirror: it writes, reads its state, and waits for its own writes.
#include "base/task.h"
#include "primitives/mirror/mirror.h"
#include "proof/torture/worker.h"
#include "redis/client.h"

namespace warren::torture {

MirrorTerms torture_mirror_terms(std::size_t log_entries);
// A digest of all entities together, in whatever order they are added.
class ContentsDigest {
 public:
  void add(std::string_view key, std::string_view value) { sum_ += of(key, value); }
  void remove(std::string_view key, std::string_view value) { sum_ -= of(key, value); }
  std::uint64_t value() const { return sum_; }

 private:
  static std::uint64_t of(std::string_view key, std::string_view value);
  std::uint64_t sum_ = 0;
};

// Writes until SIGUSR1. Ends with SIGTERM, and then records its state. Closes the client.
awaitable<void> run_mirror_worker(redis::Client& client, const WorkerTerms& terms);

}  // namespace warren::torture
