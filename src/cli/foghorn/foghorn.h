#pragma once
// What the commands of Foghorn share: its settings, and asking an instance that runs.
#include <boost/json/value.hpp>

#include "cli/cli.h"
#include "net/http/client.h"

namespace warren::cli {

// Of `serve`. They are not flags of every command; serve has flags for those that one types.
std::vector<Setting> foghorn_settings();
bool is_of_foghorn(const Setting& setting);

// --url, and for a process that serves several clusters --cluster.
struct FoghornOptions {
  CLI::Option *url = nullptr, *cluster = nullptr, *timeout = nullptr;
};
FoghornOptions add_foghorn_options(CLI::App& app);
// What the instance says to GET target. Errc::unavailable: there is none. Errc::not_found, refused:
// what it said.
Result<boost::json::value> ask_foghorn(const Context& context, const FoghornOptions& options,
                                       std::string target);

}  // namespace warren::cli
