#pragma once
// Words and folders that several commands of the fleet need.
#include <filesystem>

#include "cli/cli.h"
#include "net/http/tls.h"

namespace warren::cli {

std::vector<std::string> words_of_list(std::string_view list);  // a,b,c
// Where fetched repositories are kept: as given, or below the user's cache folder; for its owner alone.
Result<std::filesystem::path> mirrors_folder(const Context& context, const std::string& given);

// Trusts the CA in FLEET_CA. Errc::invalid: the file cannot be read, or is not a certificate.
Result<TlsContext> tls_of(const Config& config);

// What an operator wants to see of a process that serves, unless he said otherwise.
Context with_log(Context context);

}  // namespace warren::cli
