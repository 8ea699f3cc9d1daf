// warren list: the instances of this Redis.
#include <fmt/format.h>

#include <boost/json.hpp>

#include "cli/instances.h"

namespace warren::cli {

namespace {

namespace json = boost::json;

void print_json(const std::vector<ListedInstance>& instances) {
  json::array list;
  for (const auto& [instance, state, entry] : instances) {
    auto object = json::parse(to_json(entry)).as_object();
    object["name"] = instance;
    object["state"] = std::string(name(state));
    list.push_back(std::move(object));
  }
  fmt::print("{}\n", json::serialize(list));
}

std::string shown(InstanceState state, const Paint& paint) {
  auto text = fmt::format("{:<8}", name(state));
  return state == InstanceState::running ? paint.green(text)
         : state == InstanceState::stale ? paint.red(text)
                                         : paint.yellow(text);
}

void print_table(const std::vector<ListedInstance>& instances, const std::string& title,
                 const Paint& paint) {
  if (instances.empty()) return fmt::print("No active {} instances\n", title);
  fmt::print("Active {} instances:\n", title);
  std::size_t width = 12;
  for (const auto& instance : instances) width = std::max(width, instance.name.size());
  auto now = WallClock::now();
  for (const auto& [instance, state, entry] : instances) {
    auto age = std::chrono::duration_cast<std::chrono::seconds>(now - entry.started_at);
    auto started = fmt::format("(started {} ago)", age_text(age));
    fmt::print("  {:<{}} {:<18} {} {}\n", printable(instance), width, started, shown(state, paint),
               printable(entry.workspace_path));
  }
}

void show(const std::vector<ListedInstance>& instances, const std::string& prefix, bool in_json,
          const Paint& paint) {
  if (in_json)
    print_json(instances);
  else
    print_table(instances, capitalised(prefix), paint);
}

Async<Exit> list(redis::Client& client, std::string prefix, bool in_json, Paint paint) {
  Registry registry(client, prefix);
  auto instances = co_await registry.list();
  if (!instances) co_return std::unexpected(instances.error());
  show(*instances, prefix, in_json, paint);
  co_return Exit::ok;
}

}  // namespace

void add_list(CLI::App& root, Action& chosen) {
  auto* app = root.add_subcommand("list", "The instances of this Redis")->group("Instances");
  app->footer(
      "A stale instance is one whose orchestrator died: it blocks nobody, and its entry is "
      "removed\n"
      "by the next `warren up`.\n\n"
      "Example\n"
      "  warren list --json");
  auto* prefix = add_prefix(*app);
  auto* in_json = add_json(*app);
  app->callback([=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto redis = find_instance_redis(context);
      if (!redis) return std::unexpected(redis.error());
      if (!redis->is_there) {
        show({}, value_of(*prefix), in_json->count() > 0, context.out);
        return Exit::ok;
      }
      return with_instance_redis(*redis, 5s, [&](redis::Client& client) {
        return list(client, value_of(*prefix), in_json->count() > 0, context.out);
      });
    };
  });
}

}  // namespace warren::cli
