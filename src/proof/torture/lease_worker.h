#pragma once
// One process that wants leases, holds them, writes under them and lets them go.
#include "base/task.h"
#include "proof/torture/worker.h"
#include "redis/client.h"

namespace warren::torture {

// Keys in Redis.
std::string lease_key(history::LockId lock);
std::string log_key(history::LockId lock);
// One entry of the log that a lock guards: the token and the attempt that wrote it.
std::string log_entry(history::Token token, history::ProcessId process, history::AttemptId attempt);

// Runs until SIGTERM; closes the client.
awaitable<void> run_lease_worker(redis::Client& client, const WorkerTerms& terms);

}  // namespace warren::torture
