// Declares commands and options, and reads their values. No other file uses CLI11 for that
// (scripts/lint), because CLI11 interprets some words in its own way:
//
//   [a,b]     a list, for an option that may take any number of words ("allow_extra_args")
//   ++        the end of a command
//   --name=   the next word is the value
//
// Here a word means exactly what was typed. So no option allows extra args: a list expects more
// words than there can be, and accepts fewer. Words of the other two kinds are passed to CLI11 with
// a NUL at the end, which no argument of a process can contain, and the NUL is removed afterwards.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/cli.h"

namespace warren::cli {

namespace {

constexpr int most_words = 100'000;

std::string as_parsed(std::string word) {
  bool has_no_value = word.starts_with("--") && word.ends_with('=');
  if (word == "++" || has_no_value) word += '\0';
  return word;
}

std::string as_typed(std::string word) {
  if (word.ends_with('\0')) word.pop_back();
  return word;
}

std::vector<std::string> as_typed(std::vector<std::string> words) {
  for (auto& word : words) word = as_typed(std::move(word));
  return words;
}

}  // namespace

void parse_words(CLI::App& root, std::vector<std::string> words) {
  std::ranges::reverse(words);  // CLI11 takes words from the back
  for (auto& word : words) word = as_parsed(std::move(word));
  root.parse(std::move(words));
}

std::vector<std::string> not_understood(const CLI::App& root) {
  return as_typed(root.remaining(true));
}

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& help,
                      const std::string& group) {
  auto* app = parent.add_subcommand(name, help);
  return group.empty() ? app : app->group(group);
}

void set_footer(CLI::App& app, const std::string& text) { app.footer(text); }
void need_command(CLI::App& app) { app.require_subcommand(1); }
void when_chosen(CLI::App& app, std::function<void()> action) { app.callback(std::move(action)); }
std::string program_of(const CLI::App& app) { return root_of(app).get_name(); }

CLI::Option* add_value(CLI::App& app, const std::string& name, const std::string& kind,
                       const std::string& help, Check check, const std::string& fallback) {
  auto* option = app.add_option(name, help);
  option->type_name(kind)->default_str(fallback)->take_last();
  if (check)
    option->check([check = std::move(check)](const std::string& parsed) {
      auto value = as_typed(parsed);
      auto checked = check(value);
      return checked ? "" : fmt::format("\"{}\": {}", value, checked.error().what);
    });
  return option;
}

CLI::Option* add_repeated(CLI::App& app, const std::string& name, const std::string& kind,
                          const std::string& help) {
  return app.add_option(name, help)->type_name(kind)->take_all();
}

CLI::Option* add_list(CLI::App& app, const std::string& name, const std::string& kind,
                      const std::string& help, int least) {
  auto* option = app.add_option(name, help)->type_name(kind)->expected(most_words, most_words);
  return option->required(least > 0)->take_all();
}

std::vector<std::string> values_of(const CLI::Option& option) { return as_typed(option.results()); }

CLI::Option* add_switch(CLI::App& app, const std::string& name, const std::string& help) {
  return app.add_flag(name, help);
}

CLI::Option* add_json(CLI::App& app) {
  return add_switch(app, "--json", "JSON on one line, for programs");
}

bool is_given(const CLI::Option& option) { return option.count() > 0; }
void require(CLI::Option& option) { option.required(); }
void hide(CLI::Option& option) { option.group(""); }

std::string value_of(const CLI::Option& option) {
  return option.count() > 0 ? as_typed(option.results().back()) : option.get_default_str();
}

std::string path_of(const CLI::App& app) {
  return app.get_parent() ? path_of(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

const CLI::App& root_of(const CLI::App& app) {
  return app.get_parent() ? root_of(*app.get_parent()) : app;
}

std::string kind_of(const CLI::Option& option) {
  return option.get_items_expected_max() == 0 ? "" : option.get_type_name();
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App& asked_for(const CLI::App& root) {
  auto inner = root.get_subcommands();
  return inner.empty() ? root : asked_for(*inner.front());
}

}  // namespace warren::cli
