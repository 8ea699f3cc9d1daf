// warren completion: shell scripts, generated from the tree of commands.
//
// Both scripts follow the words before the cursor down the tree, skipping the values of flags, and
// then offer what is possible at that place: commands, flags, or the values of a flag.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <set>

#include "cli/cli.h"

namespace warren::cli {

namespace {

std::string flag_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : "--" + option.get_lnames().front();
}

struct Cases {
  std::string commands;  // words that lead down the tree
  std::string values;    // by flag: its possible values
  std::string offers;    // by place in the tree: its commands and its own flags
  std::set<std::string> flags_with_value;
};

// "/redis/ping" of `warren redis ping`
std::string place_of(const CLI::App& app) {
  return app.get_parent() ? place_of(*app.get_parent()) + "/" + app.get_name() : "";
}

std::string words_in(std::string kind) {
  std::ranges::replace(kind, '|', ' ');
  return kind;
}

std::string offer(const std::string& kind) {
  if (kind == "FILE") return "_warren_files";
  return kind.contains('|') ? "_warren_words " + words_in(kind) : ":";
}

void collect(const CLI::App& app, Cases& cases) {
  std::string words, flags;
  for (auto* option : app.get_options()) {
    auto kind = kind_of(*option), flag = flag_name(*option);
    bool is_inherited = app.get_parent() && option == app.get_help_ptr();
    if (!option->nonpositional() && kind.contains('|')) words += " " + words_in(kind);
    if (!option->nonpositional() || is_inherited || option->get_group().empty()) continue;
    flags += " " + flag;
    if (!kind.empty() && cases.flags_with_value.insert(flag).second)
      cases.values += fmt::format("    {}) {}; return ;;\n", flag, offer(kind));
  }
  for (auto* command : commands_of(app)) {
    words += " " + command->get_name();
    cases.commands += fmt::format("      {}) place+=/$word ;;\n", place_of(*command));
  }
  // The flags of the root are allowed anywhere, so they are always offered.
  cases.offers += fmt::format("    '{}') offered='{}' flags+='{}' ;;\n", place_of(app), words,
                              app.get_parent() ? flags : "");
  for (auto* command : commands_of(app)) collect(*command, cases);
}

// For both shells. Arguments: the word before the cursor, the word at it, and all words up to
// there.
constexpr auto common = R"(_warren_complete() {{
  local previous=$1 current=$2 place= word= offered= flags='{0}'
  shift 2
  while (( $# > 1 )); do
    word=$1; shift
    case $word in
      {1}) shift; continue ;;
    esac
    case $place/$word in
{2}    esac
  done
  case $previous in
{3}  esac
  case $place in
{4}  esac
  case $current in
    -*) _warren_words $flags ;;
    *) _warren_words $offered ;;
  esac
}}
)";

constexpr auto bash_begin = R"(# Completion of warren for bash: source <(warren completion bash)
_warren_words() { COMPREPLY=($(compgen -W "$*" -- "$current")); }
_warren_files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")); }
)";
constexpr auto bash_end = R"(_warren() {
  COMPREPLY=()
  _warren_complete "${COMP_WORDS[COMP_CWORD-1]}" "${COMP_WORDS[COMP_CWORD]}" \
    "${COMP_WORDS[@]:1:COMP_CWORD}"
}
complete -F _warren warren holt sett foghorn
)";

constexpr auto zsh_begin = R"(#compdef warren holt sett foghorn
# Completion of warren for zsh, after compinit: source <(warren completion zsh)
_warren_words() { compadd -- ${=*}; }
_warren_files() { _files; }
)";
constexpr auto zsh_end = R"(_warren() {
  _warren_complete "$words[CURRENT-1]" "$words[CURRENT]" "${(@)words[2,CURRENT]}"
}
compdef _warren warren holt sett foghorn
)";

std::string script(const CLI::App& root, const std::string& shell) {
  Cases cases;
  collect(root, cases);
  std::vector<std::string> flags;
  for (auto* option : root.get_options()) flags.push_back(flag_name(*option));
  auto body = fmt::format(common, fmt::join(flags, " "), fmt::join(cases.flags_with_value, "|"),
                          cases.commands, cases.values, cases.offers);
  bool is_bash = shell == "bash";
  return (is_bash ? bash_begin : zsh_begin) + body + (is_bash ? bash_end : zsh_end);
}

}  // namespace

void add_completion(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "completion",
                          "A script with which the shell completes these commands", "Your shell");
  set_footer(*app,
             "Examples\n"
             "  echo 'source <(warren completion bash)' >> ~/.bashrc\n"
             "  echo 'source <(warren completion zsh)' >> ~/.zshrc      # after compinit");
  auto* shell = add_value(*app, "shell", "bash|zsh", "the shell that reads the script",
                          one_of({"bash", "zsh"}))
                    ->required();
  when_chosen(*app, [=, &root, &chosen] {
    chosen = [=, &root](const Context&) -> Result<Exit> {
      fmt::print("{}", script(root, value_of(*shell)));
      return Exit::ok;
    };
  });
}

}  // namespace warren::cli
