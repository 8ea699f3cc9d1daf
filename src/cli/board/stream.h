#pragma once
// What forage and watch share: happenings as lines.
#include "cli/instance/which.h"
#include "services/board/watch/watcher.h"

namespace warren::cli {

enum class Output { lines, jsonl };

CLI::Option* add_output(CLI::App& app);  // --output
Output output_of(const CLI::Option& option);

struct FilterOptions {
  CLI::Option *since = nullptr, *until = nullptr, *type = nullptr, *agent = nullptr;
};
FilterOptions add_filter(CLI::App& app);  // --since, --until, --type, --agent
Result<watch::Filter> filter_of(const FilterOptions& options);

// On standard output, at once: whoever reads it may wait for it.
void print(const watch::Happening& happening, Output output, const Paint& paint);
// On standard error.
watch::Watcher::Tell notices(const Paint& paint);
// Runs a watcher that is settled, until its end or until the person wants none of it any more.
Async<> watch_until_interrupted(watch::Watcher& watcher);

}  // namespace warren::cli
