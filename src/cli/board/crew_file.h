#pragma once
// The crew of a folder, for the commands that need one.

#include "cli/cli.h"
#include "services/board/crew/crew.h"

namespace warren::cli {

// holt.yml, sett.yml or warren.yml, depending on the name under which the program was called.
std::string crew_file_name(const CLI::App& app);

// Prints warnings and mistakes to standard error, each with its line. Errors: invalid with the
// number of mistakes, not_found if there is no such file.
Result<Crew> load_crew(const Context& context, const std::filesystem::path& file);
// Like load_crew(), but returns nullopt if there is no such file.
Result<std::optional<Crew>> find_crew(const Context& context, const std::filesystem::path& file);

// The tools and bid scripts of this folder's crew that cannot be run here, each with its role and
// the reason. Does not check those that run in images.
std::vector<std::string> missing_tools(const Context& context, const Crew& crew,
                                       const std::filesystem::path& folder);

}  // namespace warren::cli
