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
  bool has_timeout = false;  // the user chose it
};

// The latest instance of the nearest folder that has one, searching upwards from this folder.
// Running ones come first.
const ListedInstance* of_this_folder(const std::vector<ListedInstance>& instances) {
  for (std::filesystem::path folder = workspace_here();; folder = folder.parent_path()) {
    const ListedInstance* found = nullptr;
    auto rank = [](const ListedInstance& i) {
      return std::pair(i.state != InstanceState::stale, i.entry.started_at);
    };
    for (const auto& instance : instances)
      if (instance.entry.workspace_path == folder && (!found || rank(instance) > rank(*found)))
        found = &instance;
    if (found || folder == folder.parent_path()) return found;
  }
}

// An instance of another folder is stopped only if it is named.
Error nothing_to_stop(const std::vector<ListedInstance>& instances, const DownOptions& options) {
  if (!options.name.empty())
    return {Errc::not_found, fmt::format("there is no instance '{}'", options.name)};
  std::vector<std::string> others;
  for (const auto& instance : instances)
    if (instance.state != InstanceState::stale && others.size() < 5)
      others.push_back(instance.name);
  auto way_out = others.empty()
                     ? std::string()
                     : fmt::format(": name one with --name (running: {})", fmt::join(others, ", "));
  return {Errc::not_found,
          fmt::format("no instance of {} is there to stop{}", workspace_here(), way_out)};
}

std::int64_t seconds_up(std::chrono::milliseconds time) {
  return std::chrono::ceil<std::chrono::seconds>(time).count();
}

// No process of the instance is visible here, so its name becomes free when its lock expires. Not
// earlier: the process may run where we cannot see it. Then it renews its lock, and is not gone.
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
  // Servers notice expired keys slightly late.
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

// Its process is known to be dead, so its lock is no longer renewed, and nothing writes under it.
Async<Exit> bury(Registry& registry, ListedInstance instance) {
  auto buried = co_await registry.bury(instance);
  if (!buried) co_return std::unexpected(buried.error());
  auto gone = co_await registry.is_gone(instance);  // it may have left just before it ended
  if (!gone) co_return std::unexpected(gone.error());
  if (!*buried && !*gone)
    co_return fail(Errc::held_elsewhere, "somebody has just taken the name '{}'", instance.name);
  fmt::print("Stopped instance: {} (its process was gone)\n", instance.name);
  co_return Exit::ok;
}

// The lock's holder does not answer. A lock that never expires belongs to no process, because
// holders renew theirs.
Async<Exit> remove_lock(Registry& registry, redis::Client& client, std::string name) {
  auto key = registry.keys().lock(name);
  auto value = co_await client.ask(redis::Command("GET", key));
  if (!value) co_return std::unexpected(value.error());
  auto rest = co_await client.ask(redis::Command("PTTL", key));
  if (!rest) co_return std::unexpected(rest.error());
  if (value->is_null()) {
    fmt::print("Stopped instance: {}\n", name);
    co_return Exit::ok;
  }
  if (rest->number >= 0)
    co_return fail(Errc::held_elsewhere,
                   "nobody answers for the lock of '{}', and it has no entry: unless somebody "
                   "renews it, it is free in {} s",
                   name, seconds_up(std::chrono::milliseconds(rest->number)));
  auto removed = co_await registry.break_lock(name, value->text);
  if (!removed) co_return std::unexpected(removed.error());
  fmt::print("Stopped instance: {} (it was a lock that never expires, and nothing else)\n", name);
  co_return Exit::ok;
}

Async<Exit> stop(Registry& registry, redis::Client& client, ListedInstance instance,
                 DownOptions options) {
  if (is_known_dead(instance.entry)) {
    auto buried = co_await bury(registry, std::move(instance));
    co_return buried;
  }
  auto asked = co_await registry.ask_to_stop(instance);
  if (!asked) co_return std::unexpected(asked.error());
  auto began = Clock::now();
  bool is_signalled = false;
  while (Clock::now() < began + options.timeout) {
    // Check the process first: an instance that stops gives its name back before its process ends.
    auto process = process_of(instance.entry);
    bool is_dead = is_known_dead(instance.entry);
    auto gone = co_await registry.is_gone(instance);
    if (!gone) co_return std::unexpected(gone.error());
    if (*gone) {
      fmt::print("Stopped instance: {}\n", instance.name);
      co_return Exit::ok;
    }
    if (is_dead) {  // it died meanwhile
      auto buried = co_await bury(registry, std::move(instance));
      co_return buried;
    }
    if (process == ProcessState::gone) {
      auto waited = co_await wait_for_name(registry, client, std::move(instance), options);
      co_return waited;
    }
    // It may have missed the request if its connection broke.
    if (!is_signalled && Clock::now() > began + options.timeout / 4) {
      is_signalled = true;
      if (process == ProcessState::lives) kill(instance.entry.orchestrator_pid, SIGTERM);
    }
    co_await sleep_for(20ms);
  }
  if (instance.state == InstanceState::unlisted) {
    auto removed = co_await remove_lock(registry, client, instance.name);
    co_return removed;
  }
  co_return fail(Errc::held_elsewhere,
                 "instance {0} did not stop within {1} s: look at process {2} on {3}, and at '{4} "
                 "logs --name {0}'; a longer --timeout waits longer",
                 instance.name, seconds_up(options.timeout), instance.entry.orchestrator_pid,
                 instance.entry.host, options.program);
}

// The named one, even if only its lock exists; otherwise the one of this folder.
Async<ListedInstance> choose(Registry& registry, const std::vector<ListedInstance>& instances,
                             DownOptions options) {
  if (options.name.empty()) {
    if (const auto* found = of_this_folder(instances)) co_return *found;
    co_return std::unexpected(nothing_to_stop(instances, options));
  }
  auto found = std::ranges::find(instances, options.name, &ListedInstance::name);
  if (found != instances.end()) co_return *found;
  auto unlisted = co_await registry.unlisted(options.name);
  if (unlisted || unlisted.error().code != Errc::not_found) co_return unlisted;
  co_return std::unexpected(nothing_to_stop(instances, options));
}

// Stops the instance. Sets `others` if other instances are known to use this Redis.
Async<Exit> down(redis::Client& client, DownOptions options, bool& others) {
  Registry registry(client, options.prefix);
  auto instances = co_await registry.list();
  if (!instances) co_return std::unexpected(instances.error());
  auto chosen = co_await choose(registry, *instances, options);
  if (!chosen) co_return std::unexpected(chosen.error());
  others = std::ranges::any_of(*instances, [&](const ListedInstance& other) {
    return other.name != chosen->name && other.state != InstanceState::stale;
  });
  if (chosen->state == InstanceState::stale) {
    auto forgotten = co_await registry.forget(chosen->name);
    if (!forgotten) co_return std::unexpected(forgotten.error());
    fmt::print("Stopped instance: {} (its orchestrator was gone already)\n", chosen->name);
    co_return Exit::ok;
  }
  auto stopped = co_await stop(registry, client, *std::move(chosen), std::move(options));
  co_return stopped;
}

}  // namespace

void add_down(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "down", "Stop an instance; its data stays", "Instances");
  set_footer(
      *app,
      "Without a name: the latest instance of this folder, or of the nearest above it that has "
      "one; "
      "those\n"
      "of other folders have to be named. A name is free at once when its process is known to be "
      "dead;\n"
      "otherwise, when nobody answers, after its --ttl.\n\n"
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
      if (!redis->is_there) return std::unexpected(nothing_to_stop({}, options));
      bool others = false;
      auto done = with_instance_redis(*redis, 5s, [&](redis::Client& client) {
        return down(client, std::move(options), others);
      });
      if (!done || !redis->is_embedded) return done;
      redis->use = EmbeddedRedis::Use(-1);
      // The stopped instance may still be shutting down.
      auto stopped = redis->embedded.stop_if_unused(Clock::now() + (others ? 0s : 2s));
      if (!stopped) return std::unexpected(stopped.error());
      return done;
    };
  });
}

}  // namespace warren::cli
