#include "cli/board/crew_file.h"

#include <fmt/format.h>

namespace warren::cli {

std::string crew_file_name(const CLI::App& app) {
  auto name = program_of(app);
  return (name == "holt" || name == "sett" ? name : "warren") + ".yml";
}

Result<Crew> load_crew(const Context& context, const std::filesystem::path& file) {
  auto reading = read_crew(file, context.sources.environment);
  if (!reading) return std::unexpected(reading.error());
  for (const auto& warning : reading->warnings)
    fmt::print(stderr, "{} {}\n", context.err.yellow("warning:"), printable(warning));
  for (const auto& error : reading->errors)
    fmt::print(stderr, "{} {}\n", context.err.red("error:"), printable(error));
  if (reading->crew) return *std::move(reading->crew);
  auto count = reading->errors.size();
  return fail(Errc::invalid, "{} has {} {}", file.string(), count,
              count == 1 ? "mistake" : "mistakes");
}

Result<std::optional<Crew>> find_crew(const Context& context, const std::filesystem::path& file) {
  auto crew = load_crew(context, file);
  if (!crew && crew.error().code == Errc::not_found) return std::nullopt;
  if (!crew) return std::unexpected(crew.error());
  return *std::move(crew);
}

}  // namespace warren::cli
