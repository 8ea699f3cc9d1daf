// warren agent run: runs one agent of an instance here, whichever machine runs the instance.
#include <fmt/format.h>
#include <signal.h>

#include "base/nearest.h"
#include "cli/board/crew_file.h"
#include "cli/instance/which.h"
#include "services/board/agent/agent.h"

namespace warren::cli {

using namespace asio::experimental::awaitable_operators;

namespace {

Result<crew::Role> role_of(const Crew& crew, const std::string& name, const std::string& file) {
  if (const auto* role = crew.find(name)) return *role;
  std::vector<std::string> names;
  for (const auto& role : crew.roles) names.push_back(role.name);
  auto likely = nearest(name, names);
  return fail(Errc::invalid, "{} has no role {}{}", file, name,
              likely ? ", did you mean " + *likely + "?" : "");
}

// The named instance, otherwise the latest one of this folder. It must be running.
Result<std::string> running_instance(const std::vector<ListedInstance>& instances,
                                     const std::string& wanted) {
  const ListedInstance* found = nullptr;
  for (const auto& instance : instances) {
    bool fits = wanted.empty() ? instance.entry.workspace_path == workspace_here()
                               : instance.name == wanted;
    if (!fits || instance.state == InstanceState::stale) continue;
    if (!found || instance.entry.started_at > found->entry.started_at) found = &instance;
  }
  if (found) return found->name;
  if (wanted.empty())
    return fail(Errc::not_found, "no instance of this folder runs: name one, or start it with up");
  return fail(Errc::not_found, "instance '{}' does not run", wanted);
}

Async<Exit> run_agent(redis::Client& client, std::string prefix, std::string wanted,
                      AgentTerms terms) {
  asio::signal_set signals(co_await asio::this_coro::executor, SIGTERM, SIGINT);
  Registry registry(client, prefix);
  auto instances = co_await registry.list();
  if (!instances) co_return std::unexpected(instances.error());
  auto instance = running_instance(*instances, wanted);
  if (!instance && !wanted.empty()) {
    auto is_run = co_await is_run_elsewhere(client, prefix, wanted);
    if (is_run) instance = wanted;
  }
  if (!instance) co_return std::unexpected(instance.error());
  auto board = Board::open(client, prefix, *instance);
  if (!board) co_return std::unexpected(board.error());
  fmt::print("Agent {} of instance {}; SIGTERM stops it\n", terms.role.name, *instance);
  std::fflush(stdout);
  Agent agent(*board, std::move(terms));
  auto first = co_await (agent.run() || interrupted(signals));
  if (first.index() == 1) co_return Exit::ok;
  co_return std::unexpected(std::get<0>(first).error());
}

}  // namespace

void add_agent(CLI::App& root, Action& chosen) {
  auto* agent = add_command(root, "agent", "Run agents yourself", "Agents and their work");
  need_command(*agent);
  auto* app = add_command(*agent, "run", "Run one agent of a running instance here");
  set_footer(
      *app,
      "The agents of an instance run with it. This runs one more, on this or another machine, in\n"
      "this folder. Where several have one role, each runs its tool for each grant, and the first\n"
      "result counts. It ends with SIGTERM: its tools get that too, and what they were granted is\n"
      "worked off by the next agent of the role.\n\n"
      "Example\n"
      "  warren agent run Coder --name myproject");
  auto* role = add_value(*app, "role", "ROLE", "which one", nullptr);
  require(*role);
  auto* prefix = add_prefix(*app);
  auto* name = add_name(*app, "of which instance; by default that of this folder");
  auto* file = add_value(*app, "--file", "FILE", "the file that describes the agents", nullptr,
                         crew_file_name(root));
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto talkative = context;
      if (!context.sources.environment.contains("WARREN_LOG_LEVEL"))
        talkative.sources.flags.try_emplace("log.level", "info");
      auto crew = load_crew(context, value_of(*file));
      if (!crew) return std::unexpected(crew.error());
      auto found = role_of(*crew, value_of(*role), value_of(*file));
      if (!found) return std::unexpected(found.error());
      auto redis = find_instance_redis(talkative);
      if (!redis) return std::unexpected(redis.error());
      if (!redis->is_there)
        return fail(Errc::not_found, "no instance runs here; start one with up");
      AgentTerms terms{*std::move(found), workspace_here()};
      signal(SIGPIPE, SIG_IGN);
      return with_instance_redis(*redis, 10s, [&](redis::Client& client) {
        return run_agent(client, value_of(*prefix), value_of(*name), std::move(terms));
      });
    };
  });
}

}  // namespace warren::cli
