#include "search/source/git.h"

namespace warren::search {

ChildTerms child_of(const git::Command& command) {
  ChildTerms terms;
  terms.argv = command.argv;
  for (const auto& [name, value] : command.environment)
    terms.environment.push_back(fmt::format("{}={}", name, value));
  return terms;
}

ChildTerms git_in(const std::string& path, std::vector<std::string> words, git::Obeys obeys) {
  return child_of(git::command(git::repository_in(path), std::move(words), obeys));
}

}  // namespace warren::search
