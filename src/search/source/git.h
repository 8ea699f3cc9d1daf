#pragma once
// Runs git as a child process.
#include "base/host/child.h"
#include "base/host/git.h"

namespace warren::search {

ChildTerms child_of(const git::Command& command);

// In exactly the repository with this path, never one in a parent folder.
ChildTerms git_in(const std::string& path, std::vector<std::string> words,
                  git::Obeys obeys = git::Obeys::nobody);

}  // namespace warren::search
