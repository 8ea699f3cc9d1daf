// warren completion: scripts for shells, made from the tree of commands itself.
//
// Both scripts walk the words before the cursor down the tree, skipping the values of flags, and
// then offer what is known at that place: commands, flags, or the values that a flag takes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <set>

#include "cli/cli.h"

namespace warren::cli {

namespace {

std::string flag_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : "--" + option.get_lnames().front();
}

struct Shell {
  std::string path_cases;   // the commands, as patterns
  std::string value_cases;  // flags: what may follow
  std::string place_cases;  // commands: what they offer
  std::set<std::string> value_flags;
};

// "redis ping" of "warren redis ping"
std::string place_of(const CLI::App& app) {
  return app.get_parent() ? place_of(*app.get_parent()) + "/" + app.get_name() : "";
}

// What may be typed where a value of this kind is wanted; both shells know `_warren_files`.
std::string offer(const std::string& kind) {
  if (kind == "FILE") return "_warren_files";
  if (!kind.contains('|')) return ":";
  auto words = kind;
  std::ranges::replace(words, '|', ' ');
  return "_warren_words " + words;
}

void describe(const CLI::App& app, Shell& shell) {
  std::string words;
  for (auto* option : app.get_options()) {
    auto kind = kind_of(*option);
    if (!option->nonpositional()) {
      std::ranges::replace(kind, '|', ' ');
      words += " " + kind;
      continue;
    }
    auto flag = flag_name(*option);
    words += " " + flag;
    if (!kind.empty() && shell.value_flags.insert(flag).second)
      shell.value_cases += fmt::format("    {}) {}; return ;;\n", flag, offer(kind));
  }
  // Flags of the root can be given anywhere.
  if (app.get_parent()) words += " $_warren_flags";
  for (auto* command : commands_of(app)) {
    words += " " + command->get_name();
    shell.path_cases += fmt::format("      {}) place+=/$word ;;\n", place_of(*command));
  }
  shell.place_cases += fmt::format("    '{}') _warren_words{} ;;\n", place_of(app), words);
  for (auto* command : commands_of(app)) describe(*command, shell);
}

constexpr auto walk = R"(  while (( $# > 1 )); do
    word=$1; shift
    case $word in
      {0}) shift; continue ;;
    esac
    case $place/$word in
{1}    esac
  done
)";

constexpr auto bash_script = R"(# Completion of warren for bash: source <(warren completion bash)
_warren_words() {{ COMPREPLY=($(compgen -W "$*" -- "$_warren_current")); }}
_warren_files() {{ COMPREPLY=($(compgen -f -- "$_warren_current")); }}
_warren_walk() {{
  local place= word _warren_flags={0}
{1}  _warren_offer "$place"
}}
_warren_offer() {{
  case $_warren_previous in
{2}  esac
  case $1 in
{3}  esac
}}
_warren() {{
  local _warren_current=${{COMP_WORDS[COMP_CWORD]}} _warren_previous=${{COMP_WORDS[COMP_CWORD-1]}}
  COMPREPLY=()
  _warren_walk "${{COMP_WORDS[@]:1:COMP_CWORD}}"
}}
complete -F _warren warren holt sett foghorn
)";

constexpr auto zsh_script = R"(#compdef warren holt sett foghorn
# Completion of warren for zsh, after compinit: source <(warren completion zsh)
_warren_words() {{ compadd -- ${{=*}}; }}
_warren_files() {{ _files; }}
_warren_walk() {{
  local place= word _warren_flags={0}
{1}  _warren_offer "$place"
}}
_warren_offer() {{
  case $_warren_previous in
{2}  esac
  case $1 in
{3}  esac
}}
_warren() {{
  local _warren_previous=$words[CURRENT-1]
  _warren_walk "${{(@)words[2,CURRENT]}}"
}}
compdef _warren warren holt sett foghorn
)";

std::string script(const CLI::App& root, const std::string& name) {
  Shell shell;
  describe(root, shell);
  std::string flags;
  for (auto* option : root.get_options()) flags += flag_name(*option) + " ";
  flags.pop_back();
  auto walking = fmt::format(walk, fmt::join(shell.value_flags, "|"), shell.path_cases);
  return fmt::format(fmt::runtime(name == "bash" ? bash_script : zsh_script), "'" + flags + "'",
                     walking, shell.value_cases, shell.place_cases);
}

}  // namespace

void add_completion(CLI::App& root, Action& chosen) {
  auto* app =
      root.add_subcommand("completion", "A script with which the shell completes these commands")
          ->group("Your shell");
  app->footer(
      "Examples\n"
      "  echo 'source <(warren completion bash)' >> ~/.bashrc\n"
      "  echo 'source <(warren completion zsh)' >> ~/.zshrc      # after compinit");
  auto* shell = add_value(*app, "shell", "bash|zsh", "the shell that reads the script",
                          one_of({"bash", "zsh"}))
                    ->required();
  app->callback([=, &root, &chosen] {
    chosen = [=, &root](const Context&) -> Result<Exit> {
      fmt::print("{}", script(root, value_of(*shell)));
      return Exit::ok;
    };
  });
}

}  // namespace warren::cli
