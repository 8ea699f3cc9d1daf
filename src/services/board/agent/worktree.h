#pragma once
// A working tree for one claim, beside the workspace's own: .warren/worktrees/<name>.
//
//   <workspace>/.warren/worktrees/1f0c9a2e-Coder-4711/     ours; the last number is our process id
//   <repository>/.git/worktrees/<id>/gitdir                git's: the path of the tree
//
// Whoever made the repository, or a tool in a container that may write the workspace, may have put
// anything at either place: links, pipes, records that name a home folder. So both are reached by
// descriptors and through no link (base/host/folder.h), and a tree is removed only when its name is of
// our form, it is a real folder directly in ours, and git has it on record. What else is there is
// left alone.
//
// Rejected: `git worktree remove`, which finds its way by paths, and follows a link that is put
// there at the right moment.
#include "services/board/agent/tool.h"

namespace warren::agent {

struct Worktree {
  std::filesystem::path root;
  std::filesystem::path folder;  // in it, the one that the workspace is in its repository
};
// At the current commit. The name is <8 hex digits>-<role>-<process id>. Errc::refused: something is
// in the way, and the text says what to do. Files are as committed: filters do not run.
Async<Worktree> add_worktree(std::filesystem::path workspace, std::string name);
// What was not committed in it is gone; commits stay in the repository.
Async<> remove_worktree(std::filesystem::path workspace, std::string name);
// Removes the trees of processes that are gone. What git does not know is logged and stays.
Async<> prune_worktrees(std::filesystem::path workspace);

}  // namespace warren::agent
