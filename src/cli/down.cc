// warren down: stops an instance, wherever it runs.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <fstream>

#include "cli/instances.h"

namespace warren::cli {

namespace {

struct DownOptions {
  std::string prefix, name;
  std::chrono::milliseconds timeout{};
};

const ListedInstance* latest(const std::vector<ListedInstance>& instances, auto&& fits) {
  const ListedInstance* found = nullptr;
  for (const auto& instance : instances)
    if (fits(instance) && (!found || instance.entry.started_at > found->entry.started_at))
      found = &instance;
  return found;
}

// The one that is named; else the latest of this folder, else the latest of this user.
const ListedInstance* choose(const std::vector<ListedInstance>& instances,
                             const std::string& wanted) {
  if (!wanted.empty()) return latest(instances, [&](auto& i) { return i.name == wanted; });
  auto here = workspace_here(), user = user_name();
  for (bool alive : {true, false}) {
    auto lives = [&](auto& i) { return (i.state != InstanceState::stale) == alive; };
    if (auto* found =
            latest(instances, [&](auto& i) { return lives(i) && i.entry.workspace_path == here; }))
      return found;
    if (auto* found = latest(instances, [&](auto& i) { return lives(i) && i.entry.user == user; }))
      return found;
  }
  return nullptr;
}

Error nothing_to_stop(const DownOptions& options) {
  if (!options.name.empty())
    return {Errc::not_found, fmt::format("there is no instance '{}'", options.name)};
  return {Errc::not_found,
          fmt::format("there is no instance of this folder, and none of {}", user_name())};
}

// The process number may be another's by now.
bool is_orchestrator_here(const InstanceEntry& entry) {
  if (entry.host != host_name() || entry.orchestrator_pid <= 1) return false;
  std::ifstream file(fmt::format("/proc/{}/cmdline", entry.orchestrator_pid));
  std::string words{std::istreambuf_iterator<char>(file), {}};
  return words.contains(std::string_view("\0orchestrate\0", 13));
}

Async<Exit> stop(Registry& registry, ListedInstance instance, DownOptions options) {
  auto asked = co_await registry.ask_to_stop(instance);
  if (!asked) co_return std::unexpected(asked.error());
  auto began = Clock::now();
  bool is_signalled = false;
  while (Clock::now() < began + options.timeout) {
    auto gone = co_await registry.is_gone(instance);
    if (!gone) co_return std::unexpected(gone.error());
    if (*gone) {
      fmt::print("Stopped instance: {}\n", instance.name);
      co_return Exit::ok;
    }
    // It may have missed what was said on a connection that broke.
    if (!is_signalled && Clock::now() > began + options.timeout / 4) {
      is_signalled = true;
      if (is_orchestrator_here(instance.entry)) kill(instance.entry.orchestrator_pid, SIGTERM);
    }
    co_await sleep_for(20ms);
  }
  co_return fail(Errc::timeout, "instance {} (process {} on {}) does not stop", instance.name,
                 instance.entry.orchestrator_pid, instance.entry.host);
}

// Stops the instance; `others` run on this Redis, as far as one knows.
Async<Exit> down(redis::Client& client, DownOptions options, bool& others) {
  Registry registry(client, options.prefix);
  auto instances = co_await registry.list();
  if (!instances) co_return std::unexpected(instances.error());
  const auto* chosen = choose(*instances, options.name);
  if (!chosen) co_return std::unexpected(nothing_to_stop(options));
  others = std::ranges::any_of(*instances, [&](const ListedInstance& other) {
    return other.name != chosen->name && other.state != InstanceState::stale;
  });
  if (chosen->state == InstanceState::stale) {
    auto forgotten = co_await registry.forget(chosen->name);
    if (!forgotten) co_return std::unexpected(forgotten.error());
    fmt::print("Stopped instance: {} (its orchestrator was gone already)\n", chosen->name);
    co_return Exit::ok;
  }
  auto instance = *chosen;
  auto stopped = co_await stop(registry, std::move(instance), std::move(options));
  co_return stopped;
}

}  // namespace

void add_down(CLI::App& root, Action& chosen) {
  auto* app = root.add_subcommand("down", "Stop an instance; its data stays")->group("Instances");
  app->footer(
      "Without a name: the latest instance of this folder, else the latest of this user.\n\n"
      "Example\n"
      "  warren down --name myproject");
  auto* prefix = add_prefix(*app);
  auto* name = add_name(*app, "which one");
  auto* timeout =
      add_value(*app, "--timeout", "TIME", "until it must have stopped", duration(), "15s");
  app->callback([=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto redis = find_instance_redis(context);
      if (!redis) return std::unexpected(redis.error());
      DownOptions options{value_of(*prefix), value_of(*name), *parse_duration(value_of(*timeout))};
      if (!redis->is_there) return std::unexpected(nothing_to_stop(options));
      bool others = false;
      auto done = with_instance_redis(*redis, 5s, [&](redis::Client& client) {
        return down(client, std::move(options), others);
      });
      if (!done || !redis->is_embedded) return done;
      redis->use = EmbeddedRedis::Use(-1);
      // The one that was stopped may still be on its way out.
      auto stopped = redis->embedded.stop_if_unused(Clock::now() + (others ? 0s : 2s));
      if (!stopped) return std::unexpected(stopped.error());
      return done;
    };
  });
}

}  // namespace warren::cli
