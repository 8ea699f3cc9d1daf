#pragma once
// Shared by up, down, list and the orchestrator.
#include <filesystem>

#include "cli/cli.h"
#include "services/instance/embedded.h"
#include "services/instance/registry.h"

namespace warren::cli {

// --prefix; its default depends on the name under which the program was called.
CLI::Option* add_prefix(CLI::App& app);
CLI::Option* add_name(CLI::App& app, const std::string& help);
CLI::Option* add_ttl(CLI::App& app);           // --ttl
CLI::Option* add_no_agents(CLI::App& app);     // --no-agents
CLI::Option* add_unreplicated(CLI::App& app);  // --unreplicated

std::string capitalised(std::string word);       // Holt
std::string age_text(std::chrono::seconds age);  // 5m, 1h, 2d
std::string host_name();
std::string user_name();
std::string workspace_here();  // the current folder, with symbolic links resolved
// Errc::not_found: that folder was deleted. An instance would have no workspace then.
Result<> check_workspace_here();

// Where daemons write: $XDG_STATE_HOME/warren, or ~/.local/state/warren. Accessible only to this
// user.
Result<std::filesystem::path> state_folder(const Context& context);

// The Redis of instances: the configured one; otherwise this user's private one, if it runs;
// otherwise the one on this machine's default port. If there is none, `up` starts the private one.
struct InstanceRedis {
  Context context;  // with settings for that Redis
  EmbeddedRedis embedded;
  bool is_embedded = false, is_there = true;
  EmbeddedRedis::Use use{-1};  // the private one is not stopped while this exists
};
Result<InstanceRedis> find_instance_redis(const Context& context);
// Runs the body with a client for it.
Result<Exit> with_instance_redis(const InstanceRedis& redis, std::chrono::milliseconds timeout,
                                 const std::function<Async<Exit>(redis::Client&)>& body);

}  // namespace warren::cli
