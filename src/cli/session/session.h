#pragma once
// What the commands of sessions share: their settings, and the way to a service.
#include <filesystem>

#include "cli/cli.h"

namespace warren::cli {

// They are not flags of every command; those of sessions have flags for what one types.
std::vector<Setting> session_settings();
bool is_of_session(const Setting& setting);

struct SessionOptions {
  CLI::Option* url = nullptr;
};
SessionOptions add_session_options(CLI::App& app);  // --url

// Where `up` keeps what must outlive it: sandboxes, and the API key.
Result<std::filesystem::path> session_folder(const Context& context);
inline constexpr const char* api_key_file = "api-key";

// Asks the service once, with the API key of the settings, or the one that `up` made. What is not 200
// is an error, in the service's words.
Result<std::string> ask_service(const Context& context, const SessionOptions& options,
                                std::string method, std::string target, std::string body = "");

void add_session(CLI::App& root, Action& chosen);
void add_session_up(CLI::App& session, Action& chosen);
void add_session_serve(CLI::App& session, Action& chosen);
void add_session_looks(CLI::App& session,
                       Action& chosen);  // ls, show, explain, stop, force-release

}  // namespace warren::cli
