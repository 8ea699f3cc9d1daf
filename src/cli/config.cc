// warren config: shows every setting and its origin, and allows the file of a folder.
#include <fmt/format.h>

#include <boost/json.hpp>

#include "cli/cli.h"
#include "cli/found_file.h"

namespace warren::cli {

namespace {

void print_table(const Config& config, const Paint& paint) {
  std::size_t name_width = 0, value_width = 0;
  for (auto& value : config.values()) {
    name_width = std::max(name_width, value.setting->name.size());
    // A single long value must not push all origins out of sight.
    if (auto size = Config::shown(value).size(); size <= 40)
      value_width = std::max(value_width, size);
  }
  for (auto& value : config.values()) {
    auto text = value.value.empty() ? "-" : printable(Config::shown(value));
    auto origin = value.is_set || !value.value.empty() ? value.origin : "not set";
    auto line = fmt::format("{:<{}}  {:<{}}  {}", value.setting->name, name_width, text,
                            value_width, printable(origin));
    fmt::print("{}\n", value.is_set ? line : paint.dim(line));
  }
}

void print_json(const Config& config) {
  boost::json::object all;
  for (auto& value : config.values())
    all[value.setting->name] = boost::json::object{
        {"value", Config::shown(value)}, {"origin", value.origin}, {"is_set", value.is_set}};
  fmt::print("{}\n", boost::json::serialize(all));
}

Result<Exit> allow_here(const Context& context) {
  auto file = read_found_file(context);
  if (!file) return std::unexpected(file.error());
  auto settings = settings_in_file(all_settings(), file->path, file->text);
  if (!settings) return std::unexpected(settings.error());
  if (auto done = allow(context, *file); !done) return std::unexpected(done.error());
  fmt::print("{} is allowed to set, until it changes:\n", printable(file->path));
  for (const auto& setting : *settings)
    fmt::print("  {} = {}\n", setting.name, printable(setting.shown));
  return Exit::ok;
}

Result<Exit> deny_here(const Context& context) {
  auto file = read_found_file(context);
  if (!file) return std::unexpected(file.error());
  if (auto done = deny(context, *file); !done) return std::unexpected(done.error());
  fmt::print("{} is {} allowed\n", printable(file->path), file->is_allowed ? "no longer" : "not");
  return Exit::ok;
}

void add_allow(CLI::App& config, Action& chosen) {
  auto* allow = add_command(config, "allow", "Let warren.toml of this folder count, as it is now");
  set_footer(
      *allow,
      "Whoever made a folder wrote its warren.toml, which may say where your password goes.\n"
      "So it counts only after you have allowed its content; an edit takes that back. One that\n"
      "sets nothing but the log, or that --config or WARREN_CONFIG names, needs no leave.\n\n"
      "Example\n"
      "  cat warren.toml && warren config allow");
  when_chosen(*allow, [&chosen] { chosen = allow_here; });
  auto* deny = add_command(config, "deny", "Take that back");
  set_footer(*deny, "Example\n  warren config deny");
  when_chosen(*deny, [&chosen] { chosen = deny_here; });
}

}  // namespace

void add_config(CLI::App& root, Action& chosen) {
  auto* config = add_command(root, "config", "The settings in force", "This machine");
  need_command(*config);
  auto* show = add_command(*config, "show", "Every setting, its value and where that came from");
  set_footer(
      *show,
      "Secrets are masked. A value is taken from the first of: flag, environment (X, or the file\n"
      "that X_FILE names), configuration file, default.\n\n"
      "Example\n"
      "  REDIS_URL=redis://redis.example warren config show");
  add_allow(*config, chosen);
  auto* as_json = add_json(*show);
  when_chosen(*show, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto loaded = load_config(context);
      if (!loaded) return std::unexpected(loaded.error());
      if (is_given(*as_json))
        print_json(*loaded);
      else
        print_table(*loaded, context.out);
      // Contradictions are easiest to see next to the values.
      auto settings = redis::settings_from(*loaded);
      if (!settings) return std::unexpected(settings.error());
      return Exit::ok;
    };
  });
}

}  // namespace warren::cli
