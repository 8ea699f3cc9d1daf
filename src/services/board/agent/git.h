#pragma once
// The few things that an agent asks git, with what a repository could make it run turned off.
#include "services/board/agent/tool.h"

namespace warren::agent {

// git in this folder, without hooks, file system monitors, prompts or transports.
ToolTerms git_command(const std::filesystem::path& folder, std::vector<std::string> words);

// Whether the payload of a CodeCommit names an object of the repository. 40 or 64 hex digits or a
// plain name of a ref; whatever else git would understand is Errc::invalid.
Async<> check_commit(std::filesystem::path folder, std::string payload);

// A working tree of one claim, beside the workspace's own: .warren/worktrees/<name>.
struct Worktree {
  std::filesystem::path root;
  std::filesystem::path folder;  // in it, the one that the workspace is in its repository
};
Async<Worktree> add_worktree(std::filesystem::path workspace, std::string name);
// What was not committed in it is gone; commits stay in the repository.
Async<> remove_worktree(std::filesystem::path workspace, std::filesystem::path tree);
// Keeps a commit from being collected as garbage: refs/warren/<name>.
Async<> keep_commit(std::filesystem::path workspace, std::string name, std::string commit);
// Removes the trees of processes that are gone. A tree's name ends in "-<process id>".
Async<> prune_worktrees(std::filesystem::path workspace);

}  // namespace warren::agent
