#include "base/host/git.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/causes.h"
#include "base/clock.h"
#include "base/host/child.h"

namespace warren::git {

namespace {

namespace fs = std::filesystem;

constexpr std::array plain_commands{"cat-file", "check-ignore", "for-each-ref", "ls-files",
                                    "ls-tree",  "rev-parse",    "update-ref",   "worktree"};

using Settings = std::vector<std::pair<std::string, std::string>>;

// A pipe would hold git up.
std::string regular_or_none(const fs::path& path) {
  std::error_code ignored;
  return path.is_absolute() && fs::is_regular_file(path, ignored) ? path.string() : "/dev/null";
}

std::map<std::string, std::string> homes() {
  std::map<std::string, std::string> variables;
  for (const char* name : {"HOME", "XDG_CONFIG_HOME"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0')
      variables[name] = value;
  return variables;
}

// "core.excludesfile\nPATH\0…"; the last value of a name counts. git runs in a folder that belongs to
// no repository.
std::string settings_of_person(const fs::path& folder, const fs::path& home) {
  std::error_code ignored;
  bool has_any = fs::exists(folder / "config", ignored) ||
                 (!home.empty() && fs::exists(home / ".gitconfig", ignored));
  if (!has_any) return {};
  ChildTerms terms;
  terms.argv = {
      "git",        "-C",          "/",  "config",       "--global",
      "--includes", "--type=path", "-z", "--get-regexp", "^core\\.(excludesfile|attributesfile)$"};
  const char* programs = std::getenv("PATH");
  terms.environment = {fmt::format("PATH={}", programs ? programs : "/usr/local/bin:/usr/bin:/bin"),
                       "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1"};
  for (const auto& [name, value] : homes()) terms.environment.push_back(name + '=' + value);
  terms.idle = 5s;
  return run_child(terms, "", 1u << 20).value_or("");  // git fails if there is no such setting
}

// The files of rules that apply besides the repository's own.
Settings rules(Obeys obeys) {
  Settings found{{"core.excludesFile", "/dev/null"}, {"core.attributesFile", "/dev/null"}};
  if (obeys == Obeys::nobody) return found;
  auto variables = homes();
  fs::path home = variables["HOME"];
  fs::path folder = variables.contains("XDG_CONFIG_HOME") ? fs::path(variables["XDG_CONFIG_HOME"])
                    : home.empty()                        ? fs::path()
                                                          : home / ".config";
  if (!folder.empty()) folder /= "git";
  found[0].second = regular_or_none(folder / "ignore");
  found[1].second = regular_or_none(folder / "attributes");
  auto said = settings_of_person(folder, home);
  for (std::string_view rest = said; !rest.empty();) {
    auto one = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    auto value = one.substr(std::min(one.size(), one.find('\n') + 1));
    found[one.starts_with("core.excludesfile\n") ? 0 : 1].second = regular_or_none(value);
  }
  return found;
}

// Those above a repository's own, in every scope that it has.
Settings settings_for(Obeys obeys) {
  Settings settings{{"safe.directory", "*"},  // whose it is does not matter, as nothing of it runs
                    {"core.hooksPath", "/dev/null"},
                    {"core.fsmonitor", "false"},
                    {"submodule.recurse", "false"},  // they have settings of their own
                    {"worktree.useRelativePaths", "false"}};
  std::ranges::move(rules(obeys), std::back_inserter(settings));
  return settings;
}

bool is_plain(const std::vector<std::string>& words) {
  if (words.empty() || std::ranges::find(plain_commands, words[0]) == plain_commands.end())
    return false;
  auto has = [&](const char* word) { return std::ranges::find(words, word) != words.end(); };
  if (words[0] == "worktree") return words.size() > 1 && words[1] == "add" && has("--no-checkout");
  return !has("--textconv") && !has("--filters");
}

std::map<std::string, std::string> environment(Obeys obeys) {
  const char* programs = std::getenv("PATH");
  auto settings = settings_for(obeys);
  std::map<std::string, std::string> variables{
      {"PATH", programs == nullptr ? "/usr/local/bin:/usr/bin:/bin" : programs},
      {"LC_ALL", "C"},
      {"GIT_CONFIG_NOSYSTEM", "1"},
      {"GIT_ATTR_NOSYSTEM", "1"},
      {"GIT_TERMINAL_PROMPT", "0"},
      {"GIT_OPTIONAL_LOCKS", "0"},
      {"GIT_NO_REPLACE_OBJECTS", "1"},
      {"GIT_NO_LAZY_FETCH", "1"},
      {"GIT_ALLOW_PROTOCOL", "none"},  // for git versions that ignore the line above
      {"GIT_CONFIG_COUNT", std::to_string(settings.size())}};
  for (std::size_t i = 0; i < settings.size(); ++i) {
    variables[fmt::format("GIT_CONFIG_KEY_{}", i)] = settings[i].first;
    variables[fmt::format("GIT_CONFIG_VALUE_{}", i)] = settings[i].second;
  }
  if (obeys == Obeys::nobody) {
    variables["HOME"] = "/nonexistent";
    variables["GIT_CONFIG_GLOBAL"] = "/dev/null";
    return variables;
  }
  variables.merge(homes());
  return variables;
}

Command made(std::vector<std::string> words, Obeys obeys) {
  Command command{{"git", "--no-pager"}, environment(obeys)};
  command.argv.insert(command.argv.end(), words.begin(), words.end());
  return command;
}

std::string_view take_line(std::string_view& text) {
  auto line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

}  // namespace

Repository repository_in(const fs::path& folder) {
  std::error_code ignored;
  auto path = fs::canonical(folder, ignored);
  if (exists(path / ".git", ignored)) return {path / ".git", path};
  return {path, {}};
}

std::optional<Repository> repository_around(fs::path folder) {
  std::error_code ignored;
  folder = fs::canonical(folder, ignored);
  for (;; folder = folder.parent_path()) {
    if (exists(folder / ".git", ignored)) return Repository{folder / ".git", folder};
    if (!folder.has_relative_path()) return std::nullopt;
  }
}

Command command(const Repository& repository, std::vector<std::string> words, Obeys obeys) {
  ensure(is_plain(words), "git is asked for nothing that reads texts of a working tree");
  auto command = made(std::move(words), obeys);
  // With GIT_DIR set, git does not search for the repository. GIT_CEILING_DIRECTORIES would also
  // stop the search, but fails for paths with a colon. GIT_WORK_TREE overrides core.worktree.
  command.environment["GIT_DIR"] = repository.folder;
  if (!repository.tree.empty()) command.environment["GIT_WORK_TREE"] = repository.tree;
  const auto& start = repository.tree.empty() ? repository.folder : repository.tree;
  command.argv.insert(command.argv.begin() + 2, {"-C", start});
  return command;
}

Command version_command() { return made({"--version"}, Obeys::nobody); }

Command layout_command(const Repository& repository) {
  return command(repository, {"rev-parse", "--path-format=absolute", "--git-dir",
                              "--git-common-dir", "--revs-only", "HEAD^{commit}"});
}

Result<Layout> parse_layout(std::string_view answer) {
  Layout layout;
  layout.folder = take_line(answer);
  layout.common = take_line(answer);
  layout.head = take_line(answer);
  if (!layout.folder.is_absolute() || !layout.common.is_absolute() || !answer.empty() ||
      (!layout.head.empty() && !is_hash(layout.head)))
    return fail(Errc::refused, "git does not say where the repository is");
  return layout;
}

bool is_hash(std::string_view text) {
  auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return (text.size() == 40 || text.size() == 64) && std::ranges::all_of(text, is_digit);
}

Result<PrivateGit> PrivateGit::create(const Layout& layout) {
  std::error_code error;
  auto place = fs::temp_directory_path(error);
  if (error)
    return fail(Errc::unavailable, warren::causes::no_resources, "", "TMPDIR: {}", error.message());
  std::string name = place / "warren-git-XXXXXX";
  if (!mkdtemp(name.data()))
    return fail(Errc::unavailable, warren::causes::no_resources, place.string(), "{}: {}",
                place.string(), std::strerror(errno));
  PrivateGit made(layout, name);
  for (const char* part : {"refs", "info"}) fs::create_directory(made.folder_ / part, error);
  std::error_code ignored;
  if (fs::is_regular_file(layout.common / "info/exclude",
                          ignored))  // git would open a pipe
    fs::create_symlink(layout.common / "info/exclude", made.folder_ / "info/exclude", error);
  std::ofstream head(made.folder_ / "HEAD"), config(made.folder_ / "config");
  head << (layout.head.empty() ? "ref: refs/heads/none" : layout.head) << '\n';
  config << "[core]\n\trepositoryformatversion = 1\n\tbare = false\n";
  if (layout.head.size() == 64) config << "[extensions]\n\tobjectFormat = sha256\n";
  head.close();
  config.close();
  if (error || !head || !config)
    return fail(Errc::unavailable, warren::causes::no_resources, "", "{} cannot be written: {}",
                name, error.message());
  return made;
}

PrivateGit::~PrivateGit() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Command PrivateGit::checkout(const fs::path& tree, const std::string& commit) const {
  ensure(is_hash(commit), "a commit is a hash");
  return command(tree, {"read-tree", "--reset", "-u", "--no-recurse-submodules", commit},
                 Obeys::nobody);
}

Command PrivateGit::status(const fs::path& tree) const {
  return command(tree, {"status", "--porcelain", "--ignore-submodules=all"}, Obeys::person);
}

Command PrivateGit::command(const fs::path& tree, std::vector<std::string> words,
                            Obeys obeys) const {
  auto command = made(std::move(words), obeys);
  command.environment["GIT_DIR"] = folder_;
  command.environment["GIT_WORK_TREE"] = tree;
  command.environment["GIT_INDEX_FILE"] = layout_.folder / "index";
  command.environment["GIT_OBJECT_DIRECTORY"] = layout_.common / "objects";
  command.argv.insert(command.argv.begin() + 2, {"-C", tree});
  return command;
}

}  // namespace warren::git
