#pragma once
// Shared by forage and watch: prints events as lines.
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

// To standard output, flushed at once: another program may be waiting for it.
void print(const watch::Happening& happening, Output output, const Paint& paint);
// To standard error.
watch::Watcher::Tell notices(const Paint& paint);
// Runs a settled watcher until it ends or the user interrupts it.
Async<> watch_until_interrupted(watch::Watcher& watcher);

}  // namespace warren::cli
