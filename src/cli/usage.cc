// Texts about options and commands: help, and explanations of words that were not understood.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/nearest.h"
#include "cli/cli.h"

namespace warren::cli {

namespace {

constexpr std::size_t page_width = 100;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// "  name   help", with the continuation lines aligned below the help.
std::string entry(const std::string& name, std::string_view help, std::size_t name_width,
                  const Paint& paint) {
  auto indent = name_width + 4;
  std::string text = "  " + paint.bold(name);
  // A long name has its own line.
  text += name.size() > name_width ? "\n" + std::string(indent, ' ')
                                   : std::string(name_width - name.size() + 2, ' ');
  std::size_t column = indent;
  while (!help.empty()) {
    auto word = help.substr(0, help.find(' '));
    help.remove_prefix(std::min(help.size(), word.size() + 1));
    if (column > indent && column + 1 + word.size() > page_width) {
      text += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) text += ' ';
    text += word;
    column += word.size() + 1;
  }
  return text + "\n";
}

// The commands that do something: "redis ping", not "redis".
void collect_leaves(const CLI::App& app, std::vector<const CLI::App*>& leaves) {
  auto inner = commands_of(app);
  if (inner.empty()) leaves.push_back(&app);
  for (auto* command : inner) collect_leaves(*command, leaves);
}

std::string commands_help(const CLI::App& app, const Paint& paint) {
  std::string text;
  std::vector<std::string> groups;
  for (auto* command : commands_of(app))
    if (std::ranges::find(groups, command->get_group()) == groups.end())
      groups.push_back(command->get_group());
  auto prefix = path_of(app).size() + 1;
  for (auto& group : groups) {
    text += "\n" + paint.bold(group == "Subcommands" ? "Commands" : group) + "\n";
    for (auto* command : commands_of(app)) {
      std::vector<const CLI::App*> leaves;
      if (command->get_group() == group) collect_leaves(*command, leaves);
      for (auto* leaf : leaves)
        text += entry(path_of(*leaf).substr(prefix), leaf->get_description(), 16, paint);
    }
  }
  return text;
}

std::string options_help(const CLI::App& app, const Paint& paint) {
  std::string text;
  for (auto& group : app.get_groups()) {
    if (group.empty()) continue;  // hidden options
    std::string lines;
    for (auto* option : app.get_options()) {
      bool inherited_help = app.get_parent() && option == app.get_help_ptr();
      if (option->get_group() != group || group.empty() || inherited_help) continue;
      auto kind = kind_of(*option);
      auto name = option->nonpositional() ? option->get_name(false, true) : std::string();
      name = fmt::format("{}", fmt::join(CLI::detail::split(name, ','), ", "));
      name += (kind.empty() || name.empty() ? "" : " ") + kind;
      auto help = option->get_description();
      auto fallback = option->get_default_str();
      if (!fallback.empty()) help += " (default: " + fallback + ")";
      lines += entry(name, help, 25, paint);
    }
    if (!lines.empty()) text += "\n" + paint.bold(group) + "\n" + lines;
  }
  return text;
}

std::string usage_of(const CLI::App& app) {
  auto text = path_of(app) + " [OPTIONS]";
  for (auto* option : app.get_options())
    if (!option->nonpositional() && !option->get_group().empty())
      text += " " + (option->get_required() ? kind_of(*option) : "[" + kind_of(*option) + "]");
  return text + (commands_of(app).empty() ? "" : " COMMAND");
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
    for (const auto& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

// The flag is known, but stands before the command that it belongs to.
std::optional<Misuse> explain_early_flag(const CLI::App& app, const std::string& flag) {
  std::vector<const CLI::App*> leaves;
  collect_leaves(app, leaves);  // the command itself, if it does something
  auto knows = [&](const CLI::App* leaf) { return std::ranges::count(flags_of(*leaf), flag) > 0; };
  auto found = std::ranges::find_if(leaves, knows);
  if (found == leaves.end()) return std::nullopt;
  bool is_said = leaves.size() == 1;
  return Misuse{fmt::format("the flag '{}' belongs behind the command", flag),
                fmt::format("{}`{} {}`", is_said ? "say " : "as in ", path_of(**found), flag)};
}

Misuse explain_unknown_flag(const CLI::App& app, const std::string& word) {
  auto flag = word.substr(0, word.find('='));  // a value may be a secret
  for (auto& setting : all_settings())
    if (setting.secret && flag_of(setting) == flag)
      return {fmt::format("{} is not a flag: every user of this machine can read flags", flag),
              fmt::format("set {0}, or {0}_FILE to a file that holds it", setting.environment)};
  if (auto early = explain_early_flag(app, flag)) return *early;
  std::vector<std::string> known;
  for (auto* level = &app; level; level = level->get_parent())
    for (auto* option : level->get_options())
      if (option->nonpositional() && !option->get_lnames().empty())
        known.push_back("--" + option->get_lnames().front());
  auto meant = nearest(flag, known);
  auto hint = fmt::format("`{} --help` lists the flags", path_of(app));
  if (app.get_parent())
    hint += fmt::format(", `{} --help` those of every command", path_of(root_of(app)));
  return {fmt::format("unknown flag '{}'.{}", flag,
                      meant ? fmt::format(" Did you mean '{}'?", *meant) : ""),
          hint};
}

Misuse explain_unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<const CLI::App*> leaves;
  collect_leaves(root_of(app), leaves);
  std::vector<std::string> known;
  for (auto* command : commands_of(app)) known.push_back(command->get_name());
  auto meant = nearest(word, known);
  // The first word may have been forgotten: `warren ping`.
  std::vector<std::string> leaf_names;
  for (auto* leaf : leaves) leaf_names.push_back(leaf->get_name());
  auto leaf = meant ? std::nullopt : nearest(word, leaf_names);
  if (leaf) meant = path_of(**std::ranges::find(leaves, *leaf, &CLI::App::get_name));
  return {fmt::format("unknown command '{}'.{}", word,
                      meant ? fmt::format(" Did you mean '{}'?", *meant) : ""),
          fmt::format("`{} --help` lists the commands", path_of(app))};
}

}  // namespace

std::string flag_of(const Setting& setting) { return "--" + replaced(setting.name, ".", "-"); }

std::string help_of(const CLI::App& app, const Paint& paint) {
  auto& root = root_of(app);
  auto text =
      fmt::format("{}\n\n{} {}\n", app.get_description(), paint.bold("Usage:"), usage_of(app));
  text += commands_help(app, paint) + options_help(app, paint);
  auto footer = app.get_footer();
  if (!footer.empty()) text += "\n" + replaced(footer, "warren ", root.get_name() + " ") + "\n";
  if (&app != &root)
    text += fmt::format("\n`{} --help` has the flags that every command takes.\n", root.get_name());
  return text;
}

Misuse explain_misuse(const CLI::App& root, const std::string& parser_says) {
  auto& app = asked_for(root);
  auto extra = not_understood(root);
  if (extra.empty()) return {parser_says, fmt::format("see `{} --help`", path_of(app))};
  if (extra[0].starts_with('-')) return explain_unknown_flag(app, extra[0]);
  if (!commands_of(app).empty()) return explain_unknown_command(app, extra[0]);
  return {fmt::format("unexpected argument '{}'", extra[0]),
          fmt::format("see `{} --help`", path_of(app))};
}

}  // namespace warren::cli
