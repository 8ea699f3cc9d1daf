#include "cli/board/crew_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

namespace warren::cli {

namespace {

bool is_program(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

// Why this command cannot be run here, or "" if it can.
std::string why_not_run(const std::string& word, const std::filesystem::path& folder,
                        const std::string& search_path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (word.contains('/')) {
    auto path = folder / word;
    if (!fs::exists(path, ignored)) return "there is no " + word;
    return is_program(path) ? "" : word + " is no program: chmod +x makes a script one";
  }
  std::istringstream folders(search_path);
  for (std::string each; std::getline(folders, each, ':');)
    if (is_program(fs::path(each.empty() ? "." : each) / word)) return "";
  return "there is no " + word + " in PATH";
}

}  // namespace

std::vector<std::string> missing_tools(const Context& context, const Crew& crew,
                                       const std::filesystem::path& folder) {
  const auto& environment = context.sources.environment;
  auto path = environment.find("PATH");
  auto search_path = path == environment.end() ? std::string("/usr/bin:/bin") : path->second;
  std::vector<std::string> missing;
  auto look_for = [&](const crew::Role& role, const char* what, const auto& words) {
    if (words.empty()) return;
    auto why = why_not_run(words[0], folder, search_path);
    if (!why.empty()) missing.push_back(fmt::format("agents.{}.{}: {}", role.name, what, why));
  };
  for (const auto& role : crew.roles) {
    if (!role.image.empty()) continue;
    look_for(role, role.is_controller ? "worker.command" : "command", role.command);
    look_for(role, "bid_script", role.bid_script);
  }
  return missing;
}

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
