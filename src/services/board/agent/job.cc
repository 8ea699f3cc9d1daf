#include "services/board/agent/job.h"

#include <unistd.h>

#include "base/log.h"
#include "base/uuid.h"
#include "services/board/agent/container.h"
#include "services/board/agent/contract.h"
#include "services/board/agent/git.h"
#include "services/board/agent/worktree.h"

namespace warren::agent {

using namespace board;

namespace {

constexpr int most_lines = 50;

std::string short_id(const Claim& claim) { return claim.id.substr(0, 8); }

// What a tool says on standard error is its log.
void log_lines(const Job& job, std::string_view text) {
  for (int i = 0; i < most_lines && !text.empty(); ++i) {
    auto line = text.substr(0, text.find('\n'));
    log::info("agent.tool_said", "role", job.role.name, "claim", short_id(job.claim), "line",
              line.substr(0, 1000));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
}

// What a container leaves behind when the program that started it was killed.
awaitable<void> remove_container(std::string program, std::string name) {
  auto terms = container_removal(program, name);
  auto removed = co_await run_tool(std::move(terms));
  if (!removed) log::warn("agent.container_left", "name", name, "why", removed.error().what);
}

// From here on the coroutine may clean up although it was cancelled.
awaitable<void> forgive_cancellation() {
  co_await asio::this_coro::throw_if_cancelled(false);
  co_await asio::this_coro::reset_cancellation_state(asio::enable_terminal_cancellation());
}

bool is_rework(const Job& job) { return job.claim.status == ClaimStatus::pending_assignment; }

Artefact result_of(const Job& job, ToolOutput output) {
  Artefact result;
  result.id = result_id(job.claim.id, job.role.name);
  result.structural_type = output.structural_type;
  result.type = std::move(output.artefact_type);
  result.payload = std::move(output.payload);
  result.source_artefacts = {job.target.id};
  result.produced_by_role = job.role.name;
  if (!is_rework(job)) return result;
  result.logical_id = job.target.logical_id;
  result.type = job.target.type;
  result.version = job.target.version + 1;
  const auto& reviews = job.claim.additional_context_ids;
  result.source_artefacts.insert(result.source_artefacts.end(), reviews.begin(), reviews.end());
  return result;
}

// One run of the tool and what came of it.
struct Attempt {
  ToolEnd end;
  Result<ToolOutput> output;
};

Async<Attempt> attempt(const Job& job, std::filesystem::path folder) {
  auto terms = terms_for_role(job.role, folder);
  terms.argv = job.role.command;
  terms.input = tool_input(job.claim_type, job.target, job.context);
  terms.timeout = job.role.timeout;
  auto end = co_await run_for_role(job.role, std::move(terms));
  if (!end && end.error().code == Errc::cancelled) co_return std::unexpected(end.error());
  if (!end) {
    ToolEnd none;
    none.exit_code = -1;
    co_return Attempt{none, std::unexpected(end.error())};
  }
  log_lines(job, end->err);
  auto wrong = complaint(*end, job.role.timeout);
  if (end->timed_out || end->wrote_too_much) end->exit_code = -1;
  if (!wrong.empty()) co_return Attempt{*std::move(end), fail(Errc::refused, "{}", wrong)};
  auto output = parse_tool_output(end->out);
  bool is_commit = is_rework(job) ? job.target.type == "CodeCommit"
                                  : output && output->artefact_type == "CodeCommit";
  if (output && is_commit && output->structural_type != StructuralType::failure) {
    auto checked = co_await check_commit(folder, output->payload);
    if (!checked && checked.error().code == Errc::cancelled)
      co_return std::unexpected(checked.error());
    if (!checked) output = std::unexpected(checked.error());
  }
  co_return Attempt{*std::move(end), std::move(output)};
}

Async<Artefact> work_in(const Job& job, std::filesystem::path folder) {
  for (int tries = 0;; ++tries) {
    auto made = co_await attempt(job, folder);
    if (!made) co_return std::unexpected(made.error());
    if (made->output) co_return result_of(job, *std::move(made->output));
    log::warn("agent.tool_failed", "role", job.role.name, "claim", short_id(job.claim), "try",
              tries + 1, "why", made->output.error().what);
    if (tries >= job.role.retries)
      co_return failure_of(job.role, job.claim, made->output.error().what, made->end);
  }
}

// A tree of its own, which goes afterwards. What was committed in it stays.
Async<Artefact> work_in_tree(const Job& job) {
  auto name = fmt::format("{}-{}-{}", short_id(job.claim), job.role.name, getpid());
  auto tree = co_await add_worktree(job.workspace, name);
  if (!tree && tree.error().code == Errc::cancelled) co_return std::unexpected(tree.error());
  if (!tree) co_return failure_of(job.role, job.claim, tree.error().what);
  auto result = co_await work_in(job, tree->folder);
  co_await forgive_cancellation();
  if (result && result->type == "CodeCommit") {
    auto ref = fmt::format("{}/{}", job.claim.id, job.role.name);
    auto kept = co_await keep_commit(job.workspace, ref, result->payload);
    if (!kept) log::warn("agent.commit_not_kept", "ref", ref, "why", kept.error().what);
  }
  auto removed = co_await remove_worktree(job.workspace, name);
  if (!removed)
    log::warn("agent.tree_left", "tree", tree->root.string(), "why", removed.error().what);
  co_return result;
}

}  // namespace

ToolTerms terms_for_role(const crew::Role& role, std::filesystem::path folder) {
  ToolTerms terms;
  terms.folder = std::move(folder);
  terms.environment = least_environment();
  for (const auto& [name, value] : role.environment) terms.environment[name] = value;
  return terms;
}

Async<ToolEnd> run_for_role(const crew::Role& role, ToolTerms tool) {
  if (role.image.empty()) {
    auto end = co_await run_tool(std::move(tool));
    co_return end;
  }
  auto program = container_program();
  if (!program) co_return std::unexpected(program.error());
  auto name = fmt::format("warren-{}-{}", role.name, uuid4());
  auto terms = in_container(*program, name, role, std::move(tool));
  if (!terms) co_return std::unexpected(terms.error());
  auto end = co_await run_tool(*std::move(terms));
  if (!end || end->signal != 0 || end->timed_out || end->wrote_too_much) {
    co_await forgive_cancellation();
    co_await remove_container(*program, name);
  }
  co_return end;
}

Artefact failure_of(const crew::Role& role, const Claim& claim, std::string_view reason,
                    const ToolEnd& end) {
  Artefact failure;
  failure.id = result_id(claim.id, role.name);
  failure.structural_type = StructuralType::failure;
  failure.type = "ToolExecutionFailure";
  failure.payload = failure_payload(reason, end);
  failure.source_artefacts = {claim.artefact_id};
  failure.produced_by_role = role.name;
  return failure;
}

Async<Artefact> work_off(const Job& job) {
  if (job.role.workspace == crew::WorkspaceMode::worktree) {
    auto result = co_await work_in_tree(job);
    co_return result;
  }
  auto result = co_await work_in(job, job.workspace);
  co_return result;
}

}  // namespace warren::agent
