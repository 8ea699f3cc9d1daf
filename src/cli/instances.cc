#include "cli/instances.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace warren::cli {

CLI::Option* add_prefix(CLI::App& app) {
  auto* root = &app;
  while (root->get_parent()) root = root->get_parent();
  auto name = root->get_name();
  auto fallback = name == "holt" || name == "sett" ? name : "warren";
  return add_value(
      app, "--prefix", "WORD", "what the keys of all instances begin with",
      [](std::string_view word) -> Result<> {
        auto fits = check_instance_name(word);
        if (!fits) return fail(Errc::invalid, "a prefix is made like an instance name");
        return ok;
      },
      fallback);
}

CLI::Option* add_name(CLI::App& app, const std::string& help) {
  return add_value(app, "-n,--name", "NAME", help, check_instance_name);
}

std::string capitalised(std::string word) {
  if (!word.empty()) word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
  return word;
}

std::string age_text(std::chrono::seconds age) {
  auto seconds = std::max<std::int64_t>(age.count(), 0);
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86400);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string user_name() {
  const auto* entry = getpwuid(getuid());
  return entry ? entry->pw_name : std::to_string(getuid());
}

std::string workspace_here() {
  std::error_code ignored;
  return std::filesystem::canonical(".", ignored).string();
}

Result<std::filesystem::path> state_folder(const Context& context) {
  const auto& environment = context.sources.environment;
  auto variable = [&](const char* name) {
    auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  std::filesystem::path folder = variable("XDG_STATE_HOME");
  if (folder.empty() && !variable("HOME").empty())
    folder = std::filesystem::path(variable("HOME")) / ".local/state";
  if (folder.empty()) return fail(Errc::invalid, "neither HOME nor XDG_STATE_HOME is set");
  folder /= "warren";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  if (error) return fail(Errc::denied, "{}: {}", folder.string(), error.message());
  return folder;
}

}  // namespace warren::cli
