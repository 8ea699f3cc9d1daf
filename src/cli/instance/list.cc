// warren list: shows the instances of this Redis.
#include <fmt/format.h>

#include <boost/json.hpp>

#include "base/age.h"
#include "cli/instance/overview.h"
#include "cli/instance/servers.h"

namespace warren::cli {

namespace {

namespace json = boost::json;

void print_json(const std::vector<Overview>& instances) {
  json::array list;
  for (const auto& instance : instances) list.push_back(to_object(instance));
  fmt::print("{}\n", json::serialize(list));
}

std::string shown(InstanceState state, bool is_paused, const Paint& paint) {
  if (state == InstanceState::running && is_paused)
    return paint.yellow(fmt::format("{:<8}", "paused"));
  auto text = fmt::format("{:<8}", name(state));
  return state == InstanceState::running ? paint.green(text)
         : state == InstanceState::stale ? paint.red(text)
                                         : paint.yellow(text);
}

std::string counted(std::string number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == "1" ? "" : "s");
}

// "12 artefacts", and the part of its work that is stuck.
std::string work_of(const Overview& overview) {
  auto artefacts = overview.artefacts ? std::to_string(*overview.artefacts) : std::string("-");
  auto text = counted(std::move(artefacts), "artefact");
  if (auto untaken = overview.untaken.value_or(0); untaken > 0)
    text += fmt::format(" ({} untaken)", untaken);
  return text;
}

std::string agents_of(const Overview& overview) { return counted(shown_agents(overview), "agent"); }

// Each column is as wide as its widest cell.
void print_table(const std::vector<Overview>& instances, const std::string& title,
                 const Paint& paint) {
  if (instances.empty()) return fmt::print("No active {} instances\n", title);
  fmt::print("Active {} instances:\n", title);
  std::size_t width = 12, work = 0, agents = 0, health = 0;
  for (const auto& each : instances) {
    width = std::max(width, each.instance.name.size());
    work = std::max(work, work_of(each).size());
    agents = std::max(agents, agents_of(each).size());
    health = std::max(health, each.health.size());
  }
  for (const auto& each : instances) {
    const auto& [instance, state, entry] = each.instance;
    auto age = std::chrono::duration_cast<std::chrono::seconds>(age_of(entry.started_at));
    bool is_known = entry.started_at > WallClock::time_point{};
    auto started = is_known ? fmt::format("(started {} ago)", age_text(age)) : std::string("-");
    fmt::print("  {:<{}} {:<18} {} {:<{}}  {:<{}}  {}{}  {}\n", printable(instance), width, started,
               shown(state, each.pause.has_value(), paint), work_of(each), work, agents_of(each),
               agents, shown_health(each.health, paint),
               std::string(health - each.health.size(), ' '), printable(entry.workspace_path));
  }
}

void show(const std::vector<Overview>& instances, const std::string& prefix, bool in_json,
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
  auto unlisted = co_await unlisted_instances(client, registry, *instances);
  std::ranges::move(unlisted, std::back_inserter(*instances));
  auto overview = co_await overview_of(client, prefix, *std::move(instances));
  if (!overview) co_return std::unexpected(overview.error());
  show(*overview, prefix, in_json, paint);
  co_return Exit::ok;
}

}  // namespace

void add_list(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "list", "The instances of this Redis", "Instances");
  set_footer(*app,
             "A stale instance is one whose orchestrator died: it blocks nobody, and its entry is "
             "removed\n"
             "by the next `warren up`; its board stays: see `warren boards`. An unlisted one has a "
             "lock and "
             "no\n"
             "entry: `warren down --name` takes it down. Health is what a page answers to /readyz, "
             "within a second.\n\n"
             "Example\n"
             "  warren list --json");
  auto* prefix = add_prefix(*app);
  auto* in_json = add_json(*app);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto redis = find_instance_redis(context);
      if (!redis) return std::unexpected(redis.error());
      if (!redis->is_there) {
        show({}, value_of(*prefix), is_given(*in_json), context.out);
        return Exit::ok;
      }
      return with_instance_redis(*redis, 5s, [&](redis::Client& client) {
        return list(client, value_of(*prefix), is_given(*in_json), context.out);
      });
    };
  });
}

}  // namespace warren::cli
