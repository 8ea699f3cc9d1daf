// warren status: shows everything that is known about one instance.
#include <fmt/format.h>

#include <boost/json.hpp>

#include "base/age.h"
#include "cli/instance/overview.h"
#include "cli/instance/which.h"

namespace warren::cli {

namespace {

namespace json = boost::json;

using ClaimCounts = std::vector<std::pair<board::ClaimStatus, std::int64_t>>;

Async<ClaimCounts> count_claims(const Board& board) {
  std::vector<redis::Command> questions;
  for (auto status : board::claim_statuses)
    questions.emplace_back("ZCARD", board.keys().claims(status));
  auto options = redis::CallOptions().idempotent();
  auto answers = co_await board.client().batch(std::move(questions), options);
  ClaimCounts counts;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) co_return std::unexpected(answers[i].error());
    counts.emplace_back(board::claim_statuses[i], answers[i]->number);
  }
  co_return counts;
}

void print_json(const Overview& overview, const ClaimCounts& claims) {
  auto object = to_object(overview);
  json::object counts;
  for (auto [status, count] : claims) counts[board::name(status)] = count;
  object["claims"] = std::move(counts);
  fmt::print("{}\n", json::serialize(object));
}

void print_row(std::string_view what, const std::string& value) {
  fmt::print("  {:<10} {}\n", what, value);
}

void print_text(const Overview& overview, const ClaimCounts& claims, const Paint& paint) {
  const auto& [name, state, entry] = overview.instance;
  fmt::print("{}\n", paint.bold(name));
  bool is_listed = !entry.run_id.empty();
  bool is_run_elsewhere = !is_listed && state == InstanceState::unlisted;
  bool is_stopped = is_listed && state == InstanceState::stale;
  print_row("state", is_stopped         ? "stopped"
                     : is_listed        ? std::string(warren::name(state))
                     : is_run_elsewhere ? "run by another program"
                                        : "down");
  if (const auto& pause = overview.pause) {
    auto age = std::chrono::duration_cast<std::chrono::seconds>(age_of(pause->since));
    print_row("paused", fmt::format("{} ago: {}", age_text(age), printable(pause->reason)));
  }
  if (is_listed) {
    auto age = std::chrono::duration_cast<std::chrono::seconds>(age_of(entry.started_at));
    print_row("started", age_text(age) + " ago");
    print_row("workspace", printable(entry.workspace_path));
    print_row("page", entry.url.empty() ? "-" : printable(entry.url));
    print_row("process", fmt::format("{} on {}", entry.orchestrator_pid, printable(entry.host)));
    print_row("health", shown_health(overview.health, paint));
  }
  auto or_dash = [](const auto& count) {
    return count ? std::to_string(*count) : std::string("-");
  };
  print_row("agents", shown_agents(overview));
  print_row("artefacts", or_dash(overview.artefacts));
  std::int64_t open = 0;
  for (auto [status, count] : claims) open += board::is_open(status) ? count : 0;
  print_row("claims", fmt::format("{} open", open));
  if (auto untaken = overview.untaken.value_or(0); untaken > 0)
    print_row("", fmt::format("{} of them nobody has taken: an agent that comes may", untaken));
  for (auto [status, count] : claims)
    if (count > 0) print_row("", fmt::format("{} {}", count, board::name(status)));
}

Async<Exit> show_status(Chosen& chosen, std::string prefix, bool in_json, Paint paint) {
  std::vector<ListedInstance> one{chosen.instance};
  auto overview = co_await overview_of(chosen.board.client(), std::move(prefix), std::move(one));
  if (!overview) co_return std::unexpected(overview.error());
  auto claims = co_await count_claims(chosen.board);
  if (!claims) co_return std::unexpected(claims.error());
  if (in_json)
    print_json(overview->front(), *claims);
  else
    print_text(overview->front(), *claims, paint);
  co_return Exit::ok;
}

}  // namespace

void add_status(CLI::App& root, Action& chosen) {
  auto* app =
      add_command(root, "status", "One instance: its state, its board, its health", "Instances");
  set_footer(*app,
             "Health is what its page answers to /readyz, within a second.\n\n"
             "Example\n"
             "  warren status --name myproject --json");
  auto which = add_which(*app);
  auto* in_json = add_json(*app);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto meant = which_of(which);
      return with_board(context, meant, Need::data, [&](Chosen& of) {
        return show_status(of, meant.prefix, is_given(*in_json), context.out);
      });
    };
  });
}

}  // namespace warren::cli
