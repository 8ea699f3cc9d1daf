#pragma once
// The crew of a folder, for the commands that need one.

#include "cli/cli.h"
#include "services/board/crew/crew.h"

namespace warren::cli {

// holt.yml, sett.yml or warren.yml, after the name that the program was called by.
std::string crew_file_name(const CLI::App& app);

// Warnings and mistakes go to standard error, each with its line. Errc::invalid then says how many
// mistakes there are; Errc::not_found: there is no such file.
Result<Crew> load_crew(const Context& context, const std::filesystem::path& file);
// The same; none when there is no such file.
Result<std::optional<Crew>> find_crew(const Context& context, const std::filesystem::path& file);

// Tools and bid scripts of this folder's crew that cannot be run here, each with its role and why;
// those that run in images are not looked for.
std::vector<std::string> missing_tools(const Context& context, const Crew& crew,
                                       const std::filesystem::path& folder);

}  // namespace warren::cli
