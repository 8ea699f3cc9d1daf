// warren down: stops an instance, wherever it runs.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "cli/instance/instances.h"
#include "cli/instance/process.h"

namespace warren::cli {

namespace {

struct DownOptions {
  std::string prefix, name, program;
  std::chrono::milliseconds timeout{};
  bool has_timeout = false;  // somebody chose it
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

std::int64_t seconds_up(std::chrono::milliseconds time) {
  return std::chrono::ceil<std::chrono::seconds>(time).count();
}

// Nobody answers for it any more, so its name is free when its lock expires; not before, since the
// process may live where it cannot be seen. Then it renews its lock, and is not gone.
Async<Exit> wait_for_name(Registry& registry, redis::Client& client, ListedInstance instance,
                          DownOptions options) {
  auto rest = co_await client.ask(redis::Command("PTTL", registry.keys().lock(instance.name)));
  if (!rest) co_return std::unexpected(rest.error());
  std::chrono::milliseconds left(std::max<std::int64_t>(rest->number, 0));
  const auto& entry = instance.entry;
  if (options.has_timeout && left > options.timeout)
    co_return fail(
        Errc::held_elsewhere,
        "process {} of instance {} is gone, and its name is free in {} s: wait for that, "
        "or give a longer --timeout",
        entry.orchestrator_pid, instance.name, seconds_up(left));
  fmt::print(stderr, "Process {} of instance {} is gone; its name is free in {} s. Waiting.\n",
             entry.orchestrator_pid, instance.name, seconds_up(left));
  // Servers look at what has expired a little later.
  for (auto deadline = Clock::now() + left + 1s; Clock::now() < deadline;) {
    auto gone = co_await registry.is_gone(instance);
    if (!gone) co_return std::unexpected(gone.error());
    if (*gone) {
      auto forgotten = co_await registry.forget(instance.name);
      if (!forgotten) co_return std::unexpected(forgotten.error());
      fmt::print("Stopped instance: {} (its process was gone)\n", instance.name);
      co_return Exit::ok;
    }
    co_await sleep_for(20ms);
  }
  co_return fail(
      Errc::held_elsewhere,
      "instance {} gives no answer: there is no process {} here, but somebody renews its "
      "lock. Does another machine have the name {}, too?",
      instance.name, entry.orchestrator_pid, entry.host);
}

Async<Exit> stop(Registry& registry, redis::Client& client, ListedInstance instance,
                 DownOptions options) {
  auto asked = co_await registry.ask_to_stop(instance);
  if (!asked) co_return std::unexpected(asked.error());
  auto began = Clock::now();
  bool is_signalled = false;
  while (Clock::now() < began + options.timeout) {
    // Looked at first: who leaves gives his name back before he ends.
    auto process = process_of(instance.entry);
    auto gone = co_await registry.is_gone(instance);
    if (!gone) co_return std::unexpected(gone.error());
    if (*gone) {
      fmt::print("Stopped instance: {}\n", instance.name);
      co_return Exit::ok;
    }
    if (process == ProcessState::gone) {
      auto waited = co_await wait_for_name(registry, client, std::move(instance), options);
      co_return waited;
    }
    // It may have missed what was said on a connection that broke.
    if (!is_signalled && Clock::now() > began + options.timeout / 4) {
      is_signalled = true;
      if (process == ProcessState::lives) kill(instance.entry.orchestrator_pid, SIGTERM);
    }
    co_await sleep_for(20ms);
  }
  co_return fail(Errc::held_elsewhere,
                 "instance {0} did not stop within {1} s: look at process {2} on {3}, and at '{4} "
                 "logs --name {0}'; a longer --timeout waits longer",
                 instance.name, seconds_up(options.timeout), instance.entry.orchestrator_pid,
                 instance.entry.host, options.program);
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
  auto stopped = co_await stop(registry, client, std::move(instance), std::move(options));
  co_return stopped;
}

}  // namespace

void add_down(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "down", "Stop an instance; its data stays", "Instances");
  set_footer(
      *app,
      "Without a name: the latest instance of this folder, else the latest of this user. Of one "
      "whose\n"
      "process was killed it waits until its name is free, which is at the latest after its "
      "--ttl.\n\n"
      "Example\n"
      "  warren down --name myproject");
  auto program = program_of(root);
  auto* prefix = add_prefix(*app);
  auto* name = add_name(*app, "which one");
  auto* timeout =
      add_value(*app, "--timeout", "TIME", "until it must have stopped", duration(), "15s");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto redis = find_instance_redis(context);
      if (!redis) return std::unexpected(redis.error());
      DownOptions options{value_of(*prefix), value_of(*name), program,
                          *parse_duration(value_of(*timeout)), is_given(*timeout)};
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
