#pragma once
// Words and folders that several commands of the fleet need.
#include <filesystem>

#include "cli/cli.h"

namespace warren::cli {

std::vector<std::string> words_of_list(std::string_view list);  // a,b,c
// Where fetched repositories are kept: as given, or below the user's cache folder; for its owner alone.
Result<std::filesystem::path> mirrors_folder(const Context& context, const std::string& given);

// What an operator wants to see of a process that serves, unless he said otherwise.
Context with_log(Context context);

}  // namespace warren::cli
