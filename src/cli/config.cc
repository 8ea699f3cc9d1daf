// warren config show: every setting, and where its value came from.
#include <fmt/format.h>

#include <boost/json.hpp>

#include "cli/cli.h"

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
