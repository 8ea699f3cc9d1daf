// warren lint: checks a crew file and reports its mistakes with their lines.
#include <fmt/format.h>

#include "cli/board/crew_file.h"

namespace warren::cli {

void add_lint(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "lint", "Check the file that describes the agents",
                          "Agents and their work");
  auto fallback = crew_file_name(root);
  set_footer(
      *app,
      fmt::format("Prints every mistake with its line. The exit code is 0 when there is none, also "
                  "when there\n"
                  "are warnings, 2 when there are mistakes, and 1 when there is no such file.\n\n"
                  "Example\n"
                  "  warren lint {}",
                  fallback));
  auto* file = add_value(*app, "file", "FILE", "the file", nullptr, fallback);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto crew = load_crew(context, value_of(*file));
      if (!crew && crew.error().code == Errc::invalid) {
        fmt::print(stderr, "{}\n", printable(crew.error().what));
        return Exit::usage;
      }
      if (!crew) return std::unexpected(crew.error());
      std::filesystem::path path = value_of(*file);
      auto missing = missing_tools(context, *crew, std::filesystem::absolute(path).parent_path());
      for (const auto& each : missing)
        fmt::print(stderr, "{} {}: {}\n", context.err.red("error:"), path.filename().string(),
                   printable(each));
      if (!missing.empty()) return Exit::usage;
      auto count = crew->roles.size();
      fmt::print("{}: {} {}, no mistakes\n", value_of(*file), count, count == 1 ? "role" : "roles");
      return Exit::ok;
    };
  });
}

}  // namespace warren::cli
