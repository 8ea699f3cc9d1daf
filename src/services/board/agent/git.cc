#include "services/board/agent/git.h"

#include <algorithm>

#include "redis/resp/reply.h"
#include "services/board/agent/contract.h"

namespace warren::agent {

namespace {

// main, feature/login, v1.2: nothing that begins like an option, and none of git's operators.
bool is_plain_ref(std::string_view text) {
  auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  auto fits = [&](char c) { return is_letter(c) || c == '.' || c == '_' || c == '/' || c == '-'; };
  return !text.empty() && text.size() <= 200 && is_letter(text[0]) &&
         std::ranges::all_of(text, fits) && !text.contains("..");
}

}  // namespace

Async<std::string> ask_git(git::Command command) {
  ToolTerms terms;
  terms.argv = std::move(command.argv);
  terms.environment = std::move(command.environment);
  terms.folder = "/";
  auto end = co_await run_tool(terms);
  if (!end) co_return std::unexpected(end.error());
  auto wrong = complaint(*end, terms.timeout);
  auto line = end->err.substr(0, end->err.find('\n'));
  if (!wrong.empty()) co_return fail(Errc::refused, "git: {}", line.empty() ? wrong : line);
  if (end->out.ends_with('\n')) end->out.pop_back();
  co_return std::move(end->out);
}

Result<git::Repository> repository_of(const std::filesystem::path& folder) {
  auto repository = git::repository_around(folder);
  if (repository) return *std::move(repository);
  return fail(Errc::refused, "{} is not in a git repository: run git init there", folder.string());
}

Async<> check_commit(std::filesystem::path folder, std::string payload) {
  if (!git::is_hash(payload) && !is_plain_ref(payload))
    co_return fail(Errc::invalid, "{} is neither the hash of a commit nor the name of a ref",
                   redis::quoted(payload.substr(0, 80)));
  auto repository = repository_of(folder);
  if (!repository) co_return fail(Errc::invalid, "{}", repository.error().what);
  auto command = git::command(*repository, {"cat-file", "-e", payload});
  auto found = co_await ask_git(std::move(command));
  if (found) co_return ok;
  if (found.error().code != Errc::refused) co_return std::unexpected(found.error());
  co_return fail(Errc::invalid, "{} is not in the repository: {}", payload, found.error().what);
}

Async<> keep_commit(std::filesystem::path workspace, std::string name, std::string commit) {
  if (!git::is_hash(commit)) co_return ok;  // a ref keeps itself
  auto repository = repository_of(workspace);
  if (!repository) co_return std::unexpected(repository.error());
  auto command = git::command(*repository, {"update-ref", "refs/warren/" + name, commit});
  auto kept = co_await ask_git(std::move(command));
  if (!kept) co_return std::unexpected(kept.error());
  co_return ok;
}

}  // namespace warren::agent
