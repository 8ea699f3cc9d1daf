#include "services/board/agent/git.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "redis/resp/reply.h"
#include "services/board/agent/contract.h"

namespace warren::agent {

namespace {

namespace fs = std::filesystem;

constexpr auto trees = ".warren/worktrees";

// What it writes, without the end of the line; a bad end is an error.
Async<std::string> ask_git(ToolTerms terms) {
  auto end = co_await run_tool(terms);
  if (!end) co_return std::unexpected(end.error());
  auto wrong = complaint(*end, terms.timeout);
  auto line = end->err.substr(0, end->err.find('\n'));
  if (!wrong.empty()) co_return fail(Errc::refused, "git: {}", line.empty() ? wrong : line);
  if (end->out.ends_with('\n')) end->out.pop_back();
  co_return std::move(end->out);
}

Async<> run_git(ToolTerms terms) {
  auto answer = co_await ask_git(std::move(terms));
  if (!answer) co_return std::unexpected(answer.error());
  co_return ok;
}

bool is_hash(std::string_view text) {
  auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return (text.size() == 40 || text.size() == 64) && std::ranges::all_of(text, is_digit);
}

// main, feature/login, v1.2: nothing that begins like an option, and none of git's operators.
bool is_plain_ref(std::string_view text) {
  auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  auto fits = [&](char c) { return is_letter(c) || c == '.' || c == '_' || c == '/' || c == '-'; };
  return !text.empty() && text.size() <= 200 && is_letter(text[0]) &&
         std::ranges::all_of(text, fits) && !text.contains("..");
}

// The process whose tree this is still runs.
bool is_in_use(const std::string& name) {
  auto digits = name.substr(name.rfind('-') + 1);
  pid_t pid = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  return error == std::errc() && pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

}  // namespace

ToolTerms git_command(const fs::path& folder, std::vector<std::string> words) {
  ToolTerms terms;
  terms.argv = {"git",
                "-c",
                "core.hooksPath=/dev/null",
                "-c",
                "core.fsmonitor=false",
                "-c",
                "protocol.allow=never"};
  terms.argv.insert(terms.argv.end(), words.begin(), words.end());
  terms.folder = folder;
  terms.environment = least_environment();
  terms.environment["GIT_TERMINAL_PROMPT"] = "0";
  terms.environment["GIT_OPTIONAL_LOCKS"] = "0";
  terms.timeout = 60s;
  return terms;
}

Async<> check_commit(fs::path folder, std::string payload) {
  if (!is_hash(payload) && !is_plain_ref(payload))
    co_return fail(Errc::invalid, "{} is neither the hash of a commit nor the name of a ref",
                   redis::quoted(payload.substr(0, 80)));
  auto terms = git_command(folder, {"cat-file", "-e", payload});
  auto found = co_await run_git(std::move(terms));
  if (!found && found.error().code == Errc::refused)
    co_return fail(Errc::invalid, "{} is not in the repository: {}", payload, found.error().what);
  co_return found;
}

Async<Worktree> add_worktree(fs::path workspace, std::string name) {
  auto folder = workspace / trees;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) co_return fail(Errc::denied, "{}: {}", folder.string(), error.message());
  // What we put there is nobody's change.
  std::ofstream(workspace / ".warren/.gitignore") << "*\n";
  auto terms = git_command(workspace, {"rev-parse", "--show-prefix"});
  auto within = co_await ask_git(std::move(terms));
  if (!within) co_return std::unexpected(within.error());
  auto root = folder / name;
  if (fs::exists(root, error)) {  // of a process that had our number and was killed
    auto removed = co_await remove_worktree(workspace, root);
    if (!removed) co_return std::unexpected(removed.error());
  }
  terms = git_command(workspace, {"worktree", "add", "--force", "--detach", root.string(), "HEAD"});
  auto added = co_await run_git(std::move(terms));
  if (!added) co_return std::unexpected(added.error());
  co_return Worktree{root, root / *within};
}

Async<> remove_worktree(fs::path workspace, fs::path tree) {
  auto terms = git_command(workspace, {"worktree", "remove", "--force", "--force", tree.string()});
  auto removed = co_await run_git(std::move(terms));
  if (removed) co_return ok;
  std::error_code ignored;
  fs::remove_all(tree, ignored);
  terms = git_command(workspace, {"worktree", "prune"});
  auto pruned = co_await run_git(std::move(terms));
  co_return pruned;
}

Async<> keep_commit(fs::path workspace, std::string name, std::string commit) {
  if (!is_hash(commit)) co_return ok;  // a ref keeps itself
  auto terms = git_command(workspace, {"update-ref", "refs/warren/" + name, commit});
  auto kept = co_await run_git(std::move(terms));
  co_return kept;
}

Async<> prune_worktrees(fs::path workspace) {
  std::vector<fs::path> stale;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(workspace / trees, none))
    if (!is_in_use(entry.path().filename().string())) stale.push_back(entry.path());
  for (const auto& tree : stale) {
    auto removed = co_await remove_worktree(workspace, tree);
    if (!removed) co_return removed;
  }
  co_return ok;
}

}  // namespace warren::agent
