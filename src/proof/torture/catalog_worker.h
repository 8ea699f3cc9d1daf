#pragma once
// One node of a catalog: it claims rows, writes to them, hands them over and gives them back, tries
// to write under epochs that are over, and follows the changes.
#include "base/task.h"
#include "proof/history/catalog_history.h"
#include "proof/torture/worker.h"
#include "redis/client.h"

namespace warren::torture {

inline constexpr history::RowId wanted_rows = 6;
inline constexpr const char* catalog_prefix = "torture";

// After SIGUSR1 it gives nothing back, so that every row gets an owner. After SIGUSR2 it changes
// nothing, and records what the catalog has and what the changes reported. Ends with SIGTERM. A
// catalog on Redis uses this client, which is closed at the end.
awaitable<void> run_catalog_worker(redis::Client& client, const WorkerTerms& terms);

}  // namespace warren::torture
