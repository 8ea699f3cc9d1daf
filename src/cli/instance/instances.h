#pragma once
// What up, down, list and the orchestrator share.
#include <filesystem>

#include "cli/cli.h"
#include "services/instance/embedded.h"
#include "services/instance/registry.h"

namespace warren::cli {

// --prefix; by default the name that the program was called by selects it.
CLI::Option* add_prefix(CLI::App& app);
CLI::Option* add_name(CLI::App& app, const std::string& help);
CLI::Option* add_ttl(CLI::App& app);           // --ttl
CLI::Option* add_no_agents(CLI::App& app);     // --no-agents
CLI::Option* add_unreplicated(CLI::App& app);  // --unreplicated

std::string capitalised(std::string word);       // Holt
std::string age_text(std::chrono::seconds age);  // 5m, 1h, 2d
std::string host_name();
std::string user_name();
std::string workspace_here();  // the folder that we are in, without symbolic links
// Errc::not_found: that folder was deleted. An instance would have no workspace then.
Result<> check_workspace_here();

// Where daemons write: $XDG_STATE_HOME/warren, or ~/.local/state/warren; only for this user.
Result<std::filesystem::path> state_folder(const Context& context);

// The Redis of instances: the one that is configured; else the private one of this user, if it
// runs; else the one on this machine's usual port; else none, and `up` starts the private one.
struct InstanceRedis {
  Context context;  // with settings that lead there
  EmbeddedRedis embedded;
  bool is_embedded = false, is_there = true;
  EmbeddedRedis::Use use{-1};  // nobody stops the private one while this is held
};
Result<InstanceRedis> find_instance_redis(const Context& context);
// Runs the body with a client for it.
Result<Exit> with_instance_redis(const InstanceRedis& redis, std::chrono::milliseconds timeout,
                                 const std::function<Async<Exit>(redis::Client&)>& body);

}  // namespace warren::cli
