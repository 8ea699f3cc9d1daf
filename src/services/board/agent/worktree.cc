#include "services/board/agent/worktree.h"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/host/folder.h"
#include "base/log.h"
#include "services/board/agent/contract.h"
#include "services/board/agent/git.h"

namespace warren::agent {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_path = 8192;

// The process id at the end of a name of ours; none: it is not of our form.
std::optional<pid_t> process_of(std::string_view name) {
  auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  auto is_role = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  };
  auto last = name.rfind('-');
  if (last == name.npos || last < 10 || name[8] != '-') return std::nullopt;
  if (!std::ranges::all_of(name.substr(0, 8), is_hex) ||
      !std::ranges::all_of(name.substr(9, last - 9), is_role))
    return std::nullopt;
  pid_t pid = 0;
  const auto* end = name.data() + name.size();
  auto [stop, error] = std::from_chars(name.data() + last + 1, end, pid);
  if (error != std::errc() || stop != end || pid <= 0) return std::nullopt;
  return pid;
}

bool is_running(pid_t pid) { return kill(pid, 0) == 0 || errno == EPERM; }

Result<Folder> open_workspace(const fs::path& workspace) {
  std::error_code error;
  auto path = fs::canonical(workspace, error);  // as git has it on record
  if (error) return fail(Errc::not_found, "{}: {}", workspace.string(), error.message());
  return Folder::open(path);
}

// Errc::not_found: there are no trees.
Result<Folder> open_trees(const fs::path& workspace) {
  auto folder = open_workspace(workspace);
  if (folder) folder = folder->folder(".warren");
  if (folder) folder = folder->folder("worktrees");
  return folder;
}

Result<Folder> make_trees(const fs::path& workspace) {
  auto folder = open_workspace(workspace);
  if (folder) folder = folder->make_folder(".warren");
  if (!folder) return folder;
  // What we put there is nobody's change. Whatever has this name already says so itself, or not.
  auto made = folder->create(".gitignore", "*\n");
  if (!made) return std::unexpected(made.error());
  return folder->make_folder("worktrees");
}

// What git has on record about trees in our folder.
struct Records {
  std::optional<Folder> folder;            // none: git has no worktrees
  std::map<std::string, std::string> ids;  // by the name of a tree, that of its record
};

Result<Records> read_records(const git::Layout& layout, const fs::path& trees) {
  auto common = Folder::open(layout.common);
  if (!common) return std::unexpected(common.error());
  auto folder = common->folder("worktrees");
  if (!folder && folder.error().code == Errc::not_found) return Records{};
  if (!folder) return std::unexpected(folder.error());
  Records records{*std::move(folder), {}};
  for (const auto& id : records.folder->names()) {
    auto record = records.folder->folder(id);
    if (!record) continue;
    auto text = record->read("gitdir", most_path);
    if (!text) continue;
    fs::path link = text->substr(0, text->find('\n')), tree = link.parent_path();
    if (link.filename() == ".git" && tree.parent_path() == trees) records.ids[tree.filename()] = id;
  }
  return records;
}

Async<git::Layout> layout_of(git::Repository repository) {
  auto command = git::layout_command(repository);
  auto answer = co_await ask_git(std::move(command));
  if (!answer) co_return std::unexpected(answer.error());
  co_return git::parse_layout(*answer);
}

Async<Records> records_of(const fs::path& workspace, const fs::path& trees) {
  auto repository = repository_of(workspace);
  if (!repository) co_return std::unexpected(repository.error());
  auto layout = co_await layout_of(*repository);
  if (!layout) co_return std::unexpected(layout.error());
  co_return read_records(*layout, trees);
}

// As a process, since it may take long. It begins in the very folder that we have open, and rm
// itself follows no link.
Async<> remove_in(const Folder& folder, const std::string& name) {
  ToolTerms terms;
  terms.argv = {"rm", "-rf", "--one-file-system", "--", "./" + name};
  terms.folder = folder.for_child();
  terms.environment = least_environment();
  auto end = co_await run_tool(terms);
  if (!end) co_return std::unexpected(end.error());
  auto wrong = complaint(*end, terms.timeout);
  auto line = end->err.substr(0, end->err.find('\n'));
  if (!wrong.empty())
    co_return fail(Errc::refused, "{}: {}", (folder.path() / name).string(),
                   line.empty() ? wrong : line);
  co_return ok;
}

// The record last: what is interrupted can be done again.
Async<> remove_tree(const Folder& trees, const Records& records, std::string name) {
  auto record = records.ids.find(name);
  bool is_ours = process_of(name) && record != records.ids.end();
  auto tree = trees.folder(name);
  bool is_gone = !tree && tree.error().code == Errc::not_found;
  if (!is_gone && (!is_ours || !tree))
    co_return fail(Errc::refused,
                   "{} is not a worktree that git knows in this repository. Delete it, unless "
                   "somebody needs it",
                   (trees.path() / name).string());
  if (tree) {
    auto removed = co_await remove_in(trees, name);
    if (!removed) co_return removed;
  }
  if (!is_ours) co_return ok;
  auto removed = co_await remove_in(*records.folder, record->second);
  co_return removed;
}

// Files as committed; what the repository configures is not read.
Async<> fill(const fs::path& root, git::Layout layout) {
  auto own = git::PrivateGit::create(layout);
  if (!own) co_return std::unexpected(own.error());
  auto command = own->checkout(root, layout.head);
  auto filled = co_await ask_git(std::move(command));
  if (!filled) co_return std::unexpected(filled.error());
  co_return ok;
}

// The folder in the tree that the workspace is in its repository. In the commit it may be a link.
Result<fs::path> folder_in(const fs::path& root, const fs::path& below) {
  auto folder = below == "." ? root : root / below;
  std::error_code error;
  if (fs::canonical(folder, error) == folder && fs::is_directory(folder, error)) return folder;
  return fail(Errc::refused, "the current commit has no folder {}: commit it first",
              below.string());
}

// The tree is there and has a record.
Async<Worktree> complete(const Folder& trees, git::Repository repository, git::Layout layout,
                         const Records& records, std::string name) {
  auto record = records.ids.find(name);
  auto tree = trees.folder(name);
  if (record == records.ids.end() || !tree)
    co_return fail(Errc::refused, "{} is not what git made there: somebody else changed it",
                   (trees.path() / name).string());
  layout.folder = layout.common / "worktrees" / record->second;
  auto filled = co_await fill(tree->path(), layout);
  if (!filled) co_return std::unexpected(filled.error());
  auto workspace = trees.path().parent_path().parent_path();
  auto folder = folder_in(tree->path(), workspace.lexically_relative(repository.tree));
  if (!folder) co_return std::unexpected(folder.error());
  co_return Worktree{tree->path(), *std::move(folder)};
}

}  // namespace

Async<Worktree> add_worktree(fs::path workspace, std::string name) {
  if (!process_of(name)) co_return fail(Errc::invalid, "{} is not a name of a worktree", name);
  auto repository = repository_of(workspace);
  if (!repository) co_return std::unexpected(repository.error());
  auto trees = make_trees(workspace);
  if (!trees) co_return std::unexpected(trees.error());
  auto layout = co_await layout_of(*repository);
  if (!layout) co_return std::unexpected(layout.error());
  if (layout->head.empty())
    co_return fail(Errc::refused, "{} has no commit yet: commit something first",
                   repository->tree.string());
  auto records = read_records(*layout, trees->path());
  if (!records) co_return std::unexpected(records.error());
  // Of a process that had our number and was killed.
  auto removed = co_await remove_tree(*trees, *records, name);
  if (!removed) co_return std::unexpected(removed.error());
  auto root = (trees->path() / name).string();
  auto command = git::command(*repository,
                              {"worktree", "add", "--no-checkout", "--detach", root, layout->head});
  auto added = co_await ask_git(std::move(command));
  if (!added) co_return std::unexpected(added.error());
  records = read_records(*layout, trees->path());
  if (!records) co_return std::unexpected(records.error());
  auto tree = co_await complete(*trees, *repository, *layout, *records, name);
  if (tree || tree.error().code == Errc::cancelled) co_return tree;
  removed = co_await remove_tree(*trees, *records, name);
  if (!removed) log::warn("agent.tree_left", "tree", root, "why", removed.error().what);
  co_return tree;
}

Async<> remove_worktree(fs::path workspace, std::string name) {
  auto trees = open_trees(workspace);
  if (!trees) co_return std::unexpected(trees.error());
  auto records = co_await records_of(workspace, trees->path());
  if (!records) co_return std::unexpected(records.error());
  auto removed = co_await remove_tree(*trees, *records, std::move(name));
  co_return removed;
}

Async<> prune_worktrees(fs::path workspace) {
  auto trees = open_trees(workspace);
  if (!trees && trees.error().code == Errc::not_found) co_return ok;
  if (!trees) co_return std::unexpected(trees.error());
  auto names = trees->names();
  std::erase_if(names, [](const std::string& name) {
    auto pid = process_of(name);
    return pid && is_running(*pid);
  });
  if (names.empty()) co_return ok;
  auto records = co_await records_of(workspace, trees->path());
  if (!records) co_return std::unexpected(records.error());
  for (const auto& name : names) {
    auto removed = co_await remove_tree(*trees, *records, name);
    if (removed) continue;
    if (removed.error().code == Errc::cancelled) co_return removed;
    log::warn("agent.tree_left", "tree", (trees->path() / name).string(), "why",
              removed.error().what);
  }
  co_return ok;
}

}  // namespace warren::agent
