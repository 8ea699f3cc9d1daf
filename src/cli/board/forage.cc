// warren forage: puts a goal on the board of an instance.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "base/uuid.h"
#include "cli/board/stream.h"
#include "search/source/git.h"
#include "services/board/orchestrator/control.h"
#include "services/board/watch/workflow.h"

namespace warren::cli {

namespace {

struct ForageOptions {
  std::string goal;
  bool watches = false;
  std::string program;
  Paint out, err;
};

// `-`: what stands on standard input, without the end of its last line.
Result<std::string> read_goal(std::string goal) {
  if (goal == "-") {
    goal.assign(board::limits::payload + 2, '\0');
    std::cin.read(goal.data(), static_cast<std::streamsize>(goal.size()));
    goal.resize(static_cast<std::size_t>(std::cin.gcount()));
    if (goal.ends_with('\n')) goal.pop_back();
  }
  if (goal.find_first_not_of(" \t\r\n") == goal.npos)
    return fail(Errc::invalid, "the goal is empty: say what is wanted with --goal TEXT");
  if (goal.size() > board::limits::payload)
    return fail(Errc::invalid, "the goal is longer than {} bytes", board::limits::payload);
  return goal;
}

Result<std::string> answer_of(const git::Command& command) {
  return run_child(search::child_of(command), "", 64u << 20);
}

// Of the folder that we are in, if that is a git tree at all.
bool has_uncommitted_changes() {
  auto repository = git::repository_around(".");
  if (!repository) return false;
  auto answer = answer_of(git::layout_command(*repository));
  if (!answer) return false;
  auto layout = git::parse_layout(*answer);
  if (!layout) return false;
  auto own = git::PrivateGit::create(*layout);
  auto status = own ? answer_of(own->status(repository->tree)) : std::unexpected(own.error());
  return status && !status->empty();
}

Async<board::Artefact> create_goal(Board& board, std::string id, std::string goal) {
  board::Artefact artefact;
  artefact.id = std::move(id);
  artefact.type = "GoalDefined";
  artefact.payload = std::move(goal);
  artefact.produced_by_role = "user";
  auto created = co_await board.create_artefact(std::move(artefact));
  if (created) {
    fmt::print("Created goal: {}\n", created->id);
    std::fflush(stdout);
  }
  co_return created;
}

// Where the answer was lost there may be no error at all: who repeats it may have two goals.
Result<Exit> not_created(const Error& why, const std::string& id, const Chosen& chosen,
                         const ForageOptions& options) {
  if (why.code != Errc::unknown_outcome) return std::unexpected(why);
  fmt::print(stderr, "{} goal {} may exist: {}\n", options.err.yellow("warning:"), id,
             printable(why.what));
  fmt::print(stderr, "{} look with `{} hoard --name {} {}` before you repeat it\n",
             options.err.yellow("hint:"), options.program, chosen.instance.name, id);
  return Exit::failed;
}

Async<Exit> follow(Chosen& chosen, BoardFeed& feed, ForageOptions& options) {
  using watch::Workflow;
  std::optional<Workflow> workflow;
  watch::Watcher watcher(
      chosen.board, feed, {},
      [&](const watch::Happening& happening) {
        if (workflow->takes(happening)) print(happening, Output::lines, options.out);
        return workflow->state() == Workflow::State::open;
      },
      notices(options.err));
  auto settled = co_await watcher.settle();
  if (!settled) co_return std::unexpected(settled.error());
  auto id = uuid4();
  auto goal = co_await create_goal(chosen.board, id, std::move(options.goal));
  if (!goal) co_return not_created(goal.error(), id, chosen, options);
  workflow.emplace(id);
  auto watched = co_await watch_until_interrupted(watcher);
  if (!watched) co_return std::unexpected(watched.error());
  if (workflow->state() == Workflow::State::failed)
    co_return fail(Errc::refused, "the workflow of goal {} ended with a failure", id);
  co_return Exit::ok;
}

Async<Exit> forage(Chosen& chosen, ForageOptions options) {
  auto pause = co_await orchestrator::paused(chosen.board);
  if (!pause) co_return std::unexpected(pause.error());
  if (*pause)
    fmt::print(stderr, "{} the instance is paused ({}): `{} resume --name {}` has it go on\n",
               options.err.yellow("note:"), printable((*pause)->reason), options.program,
               chosen.instance.name);
  if (!options.watches) {
    auto id = uuid4();
    auto goal = co_await create_goal(chosen.board, id, std::move(options.goal));
    if (!goal) co_return not_created(goal.error(), id, chosen, options);
    fmt::print(stderr,
               "{} `{} watch --name {}` shows what comes of it, `{} hoard --name {}` what did\n",
               options.err.yellow("hint:"), options.program, chosen.instance.name, options.program,
               chosen.instance.name);
    co_return Exit::ok;
  }
  // Before the goal is there, so that nothing of its workflow is missed.
  BoardFeed feed(chosen.board.client(), chosen.board.keys());
  auto followed = co_await follow(chosen, feed, options);
  co_await feed.close();
  co_return followed;
}

}  // namespace

void add_forage(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "forage", "Give an instance a goal", "Work and watch");
  set_footer(*app,
             "With --watch it shows the workflow of this goal, and ends with it: 0 when a Terminal "
             "artefact\n"
             "was made, 1 when it failed.\n\n"
             "Examples\n"
             "  warren forage --goal \"a web page about herons\"\n"
             "  warren forage --goal - --watch <goal.txt");
  auto which = add_which(*app);
  auto* goal = add_value(*app, "-g,--goal", "TEXT",
                         "what is wanted; -: read it from standard input", nullptr);
  require(*goal);
  auto* watches = add_switch(*app, "-w,--watch", "show what comes of it, until its end");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto text = read_goal(value_of(*goal));
      if (!text) return std::unexpected(text.error());
      if (has_uncommitted_changes())
        fmt::print(stderr,
                   "{} this git tree has changes that are not committed; agents that work on a "
                   "commit do not see them\n",
                   context.err.yellow("warning:"));
      ForageOptions options{*std::move(text), is_given(*watches), which.program, context.out,
                            context.err};
      return with_board(context, which_of(which), Need::running,
                        [&](Chosen& of) { return forage(of, std::move(options)); });
    };
  });
}

}  // namespace warren::cli
