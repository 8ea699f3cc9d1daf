// warren redis status, start and stop: manage the private Redis of this user.
#include <fmt/format.h>

#include "cli/instance/instances.h"

namespace warren::cli {

namespace {

Result<EmbeddedRedis> private_redis(const Context& context) {
  auto folder = state_folder(context);
  if (!folder) return std::unexpected(folder.error());
  return EmbeddedRedis(*folder / "redis");
}

Async<Exit> collect_names(redis::Client& client, std::vector<std::string>& into) {
  for (auto prefix : {"warren", "holt", "sett"}) {
    Registry registry(client, prefix);
    auto instances = co_await registry.list();
    if (!instances) co_return std::unexpected(instances.error());
    for (const auto& instance : *instances)
      if (instance.state != InstanceState::stale)
        into.push_back(fmt::format("{} ({})", instance.name, prefix));
  }
  co_return Exit::ok;
}

Async<Exit> shut_down(redis::Client& client) {
  // The server answers by closing the connection.
  auto options = redis::CallOptions().fail_fast().within(2s);
  auto asked = co_await client.ask(redis::Command("SHUTDOWN"), options);
  if (!asked && asked.error().code == Errc::refused) co_return std::unexpected(asked.error());
  co_return Exit::ok;
}

Result<Exit> with_private(const Context& context, const EmbeddedRedis& redis,
                          const std::function<Async<Exit>(redis::Client&)>& body) {
  auto there = context;
  there.sources.flags["redis.url"] = redis.url();
  auto config = load_config(there);
  if (!config) return std::unexpected(config.error());
  context.io.restart();
  return with_client(there, *config, 5s, body);
}

// Only instances with the default prefixes.
Result<std::vector<std::string>> running_names(const Context& context, const EmbeddedRedis& redis) {
  std::vector<std::string> names;
  auto looked = with_private(context, redis,
                             [&](redis::Client& client) { return collect_names(client, names); });
  if (!looked) return std::unexpected(looked.error());
  return names;
}

Result<Exit> show(const Context& context, const EmbeddedRedis& redis) {
  if (!redis.is_running()) {
    fmt::print("The private Redis is not running; its folder is {}\n",
               redis.socket().parent_path().string());
    return Exit::ok;
  }
  auto names = running_names(context, redis);
  if (!names) return std::unexpected(names.error());
  fmt::print("The private Redis is running\n  url        {}\n  log        {}\n  instances  {}\n",
             redis.url(), (redis.socket().parent_path() / "redis.log").string(),
             names->empty() ? "none" : fmt::format("{}", fmt::join(*names, ", ")));
  return Exit::ok;
}

Result<Exit> start(const EmbeddedRedis& redis) {
  bool was_running = redis.is_running();
  auto started = redis.start(Clock::now() + 10s);
  if (!started) return std::unexpected(started.error());
  fmt::print("The private Redis {}: {}\n", was_running ? "runs already" : "is running now",
             redis.url());
  return Exit::ok;
}

Result<Exit> stop(const Context& context, const EmbeddedRedis& redis, bool is_forced,
                  const std::string& program) {
  if (!redis.is_running()) {
    fmt::print("The private Redis is not running\n");
    return Exit::ok;
  }
  if (!is_forced) {
    auto stopped = redis.stop_if_unused(Clock::now() + 1s);
    if (!stopped) return std::unexpected(stopped.error());
    if (!*stopped) {
      auto names = running_names(context, redis);
      return fail(Errc::refused,
                  "instances use the private Redis{}: stop them with '{} down', or use --force",
                  names && !names->empty() ? fmt::format(" ({})", fmt::join(*names, ", ")) : "",
                  program);
    }
  } else {
    auto asked = with_private(context, redis, shut_down);
    if (!asked) return asked;
    for (auto deadline = Clock::now() + 10s; redis.is_running();)
      if (Clock::now() > deadline) return fail(Errc::timeout, "the private Redis does not stop");
  }
  fmt::print("Stopped the private Redis; its data stays\n");
  return Exit::ok;
}

}  // namespace

void add_redis_private(CLI::App& redis, Action& chosen) {
  auto program = program_of(redis);
  auto add = [&](const char* name, const char* help) -> CLI::App& {
    return *add_command(redis, name, help, "The private Redis of this user");
  };
  auto run = [&chosen](auto body) {
    chosen = [body](const Context& context) -> Result<Exit> {
      auto own = private_redis(context);
      if (!own) return std::unexpected(own.error());
      return body(context, *own);
    };
  };
  when_chosen(add("status", "Whether the private Redis runs, and for which instances"), [=] {
    run([](const Context& context, const EmbeddedRedis& own) { return show(context, own); });
  });
  when_chosen(add("start", "Start the private Redis, for a look at what is there"),
              [=] { run([](const Context&, const EmbeddedRedis& own) { return start(own); }); });
  auto& app = add("stop", "Stop the private Redis; its data stays");
  auto* force = add_switch(app, "--force", "although instances use it");
  when_chosen(app, [=] {
    run([=](const Context& context, const EmbeddedRedis& own) {
      return stop(context, own, is_given(*force), program);
    });
  });
}

}  // namespace warren::cli
