#pragma once
// The few things that an agent asks git.
#include "base/host/git.h"
#include "services/board/agent/tool.h"

namespace warren::agent {

// What git writes, without the end of the last line. Errc::refused: git's own words.
Async<std::string> ask_git(git::Command command);

// The repository that a folder is in. Errc::refused: it is in none.
Result<git::Repository> repository_of(const std::filesystem::path& folder);

// Whether the payload of a CodeCommit names an object of the repository. 40 or 64 hex digits or a
// plain name of a ref; whatever else git would understand is Errc::invalid.
Async<> check_commit(std::filesystem::path folder, std::string payload);
// Keeps a commit from being collected as garbage: refs/warren/<name>.
Async<> keep_commit(std::filesystem::path workspace, std::string name, std::string commit);

}  // namespace warren::agent
