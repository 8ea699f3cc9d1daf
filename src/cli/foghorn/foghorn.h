#pragma once
// Shared by the commands of Foghorn: its settings, and queries to a running instance.
#include <boost/json/value.hpp>

#include "cli/cli.h"
#include "net/http/client.h"

namespace warren::cli {

// The settings of `serve`. They are not flags of every command; serve has its own flags for common
// ones.
std::vector<Setting> foghorn_settings();
bool is_of_foghorn(const Setting& setting);

// --url, and --cluster for a process that serves several clusters.
struct FoghornOptions {
  CLI::Option *url = nullptr, *cluster = nullptr, *timeout = nullptr;
};
FoghornOptions add_foghorn_options(CLI::App& app);
// The instance's answer to GET target. Errors: unavailable if there is no instance; not_found or
// refused if it says so.
Result<boost::json::value> ask_foghorn(const Context& context, const FoghornOptions& options,
                                       std::string target);

}  // namespace warren::cli
