// warren forage: puts a goal on the board of an instance.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <set>

#include "base/uuid.h"
#include "cli/board/stream.h"
#include "search/source/git.h"
#include "services/board/orchestrator/control.h"
#include "services/board/watch/workflow.h"

namespace warren::cli {

using namespace asio::experimental::awaitable_operators;

namespace {

struct ForageOptions {
  std::string goal;
  bool watches = false;
  std::string program;
  std::string prefix;
  Paint out, err;
};

// `-` reads standard input, without the last line end.
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

// For the repository around the current folder, if there is one.
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

// If the answer was lost, the goal may exist after all, and repeating the command may create a
// second.
Result<Exit> not_created(const Error& why, const std::string& id, const Chosen& chosen,
                         const ForageOptions& options) {
  if (why.code != Errc::unknown_outcome) return std::unexpected(why);
  fmt::print(stderr, "{} goal {} may exist: {}\n", options.err.yellow("warning:"), id,
             printable(why.what));
  fmt::print(stderr, "{} look with `{} hoard --name {} {}` before you repeat it\n",
             options.err.yellow("hint:"), options.program, chosen.instance.name, id);
  return Exit::failed;
}

// How it ended, if the board did not report the end.
struct Ending {
  std::optional<Result<Exit>> result;
};

// Whether anything is left that could continue the work.
class Pulse {
 public:
  enum class State { beats, has_no_name, has_no_orchestrator };
  Pulse(redis::Client& client, std::string prefix, std::string name)
      : client_(&client), prefix_(std::move(prefix)), name_(std::move(name)) {}

  // Only several bad results in a row count: a standby needs a moment to take over, and so does the
  // Go program to notice a lost connection. A new orchestrator must wait until its predecessor's
  // session expires.
  Async<State> look() {
    auto signs = co_await signs_of(*client_, prefix_, name_);
    if (!signs) co_return std::unexpected(signs.error());
    nameless_ = signs->has_name || signs->is_heard ? 0 : nameless_ + 1;
    lifeless_ = signs->of_life() ? 0 : lifeless_ + 1;
    co_return nameless_ >= most_nameless_ ? State::has_no_name
    : lifeless_ >= most_lifeless_         ? State::has_no_orchestrator
                                          : State::beats;
  }

 private:
  static constexpr int most_nameless_ = 7, most_lifeless_ = 20;
  redis::Client* client_;
  std::string prefix_, name_;
  int nameless_ = 0, lifeless_ = 0;
};

std::optional<Error> death_in(const Result<Pulse::State>& state, const std::string& name,
                              const std::string& id, const ForageOptions& options) {
  if (state && *state == Pulse::State::has_no_name)
    return Error{Errc::refused,
                 fmt::format("instance {0} runs no more; goal {1} stays on its board, and '{2} up "
                             "--name {0}' goes on with it",
                             name, id, options.program)};
  if (state && *state == Pulse::State::has_no_orchestrator)
    return Error{Errc::refused,
                 fmt::format("nobody orchestrates the board of {}, so nobody works on goal {}: its "
                             "orchestrator is gone, or it has no crew file",
                             name, id)};
  return {};
}

// Redis does not answer. That is reported when it begins; after a minute there is no use in waiting: an
// instance that cannot renew its name has ended by then, too. A failover by Sentinel takes half of it.
class Silence {
 public:
  bool is_on() const { return since_.has_value(); }
  // `began`: when the look did. An error ends the watch.
  Result<> on_look(const Result<Pulse::State>& state, Clock::time_point began,
                   const std::string& name, const std::string& id, const ForageOptions& options) {
    if (state || !may_retry(state.error())) {
      since_.reset();
      return ok;
    }
    const auto& why = state.error();
    if (!since_) {
      since_ = began;
      fmt::print(stderr, "{} Redis does not answer; waiting for it, for {} s at most: {}\n",
                 options.err.yellow("note:"), longest_ / 1s, printable(why.what));
    }
    if (Clock::now() - *since_ < longest_) return ok;
    return fail(Errc::unavailable, why.cause, why.subject,
                "Redis has not answered for {} s; when it is back, '{} explain --name {} {}' says "
                "what became of the goal",
                longest_ / 1s, options.program, name, id);
  }

 private:
  static constexpr auto longest_ = 60s;
  std::optional<Clock::time_point> since_;
};

// Called when no work is left. Reasons are reported only for terminated claims that have no
// successor.
Result<Exit> end_of(const watch::Progress& progress, const std::string& id,
                    const ForageOptions& options) {
  if (!progress.untaken.empty())
    return fail(Errc::refused,
                "nobody took claim {0}: it stays open, and is taken up when an agent that wants it "
                "comes; '{1} explain {0}' says more",
                progress.untaken.front(), options.program);
  if (!progress.reasons.empty())
    return fail(Errc::refused, "the workflow of goal {} ended: {}", id,
                printable(progress.reasons.back()));
  auto made = progress.artefacts - 1;
  fmt::print(stderr,
             "{} nothing is left to do for goal {}: {} artefact{} came of it, none of them "
             "Terminal\n",
             options.err.yellow("note:"), id, made, made == 1 ? "" : "s");
  return Exit::ok;
}

void tell_of_questions(const watch::Progress& progress, std::set<std::string>& told,
                       const ForageOptions& options) {
  for (const auto& question : progress.questions)
    if (told.insert(question).second)
      fmt::print(stderr, "{} a question waits: `{} answer {} TEXT`\n", options.err.yellow("note:"),
                 options.program, question);
}

// Returns when no work is left, or nothing is left to do it. Checks twice before it decides, so
// that the last events are still printed.
awaitable<void> until_over(Board board, Pulse pulse, std::string name, std::string id,
                           const ForageOptions& options, Ending& ending) {
  std::set<std::string> questions;
  Silence silence;
  for (int looks_over = 0;;) {
    auto began = Clock::now();
    auto progress = co_await watch::progress_of(board, id);
    if (progress) tell_of_questions(*progress, questions, options);
    looks_over = progress && progress->is_over() ? looks_over + 1 : 0;
    if (looks_over == 2) ending.result.emplace(end_of(*progress, id, options));
    auto state = co_await pulse.look();
    auto death = death_in(state, name, id, options);
    if (!ending.result && death) ending.result.emplace(std::unexpected(*std::move(death)));
    auto heard = silence.on_look(state, began, name, id, options);
    if (!ending.result && !heard) ending.result.emplace(std::unexpected(heard.error()));
    if (ending.result) co_return;
    // Reading a large workflow takes long, and the server has other clients too.
    Clock::duration pause = 1s;
    if (!silence.is_on()) pause += 10 * (Clock::now() - began);
    co_await sleep_for(pause);
  }
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
  Ending ending;
  Pulse pulse(chosen.board.client(), options.prefix, chosen.instance.name);
  auto first = co_await (
      watch_until_interrupted(watcher) ||
      until_over(chosen.board, std::move(pulse), chosen.instance.name, id, options, ending));
  if (ending.result) co_return *std::move(ending.result);
  auto watched = std::get<0>(std::move(first));
  if (!watched) co_return std::unexpected(watched.error());
  if (workflow->state() == Workflow::State::failed)
    co_return fail(Errc::refused, "the workflow of goal {} ended with a failure: {}", id,
                   printable(workflow->why()));
  co_return Exit::ok;
}

Async<Exit> forage(Chosen& chosen, ForageOptions options) {
  auto pause = co_await orchestrator::paused(chosen.board);
  if (!pause) co_return std::unexpected(pause.error());
  if (*pause)
    fmt::print(stderr, "{} the instance is paused ({}): `{} resume --name {}` has it go on\n",
               options.err.yellow("note:"), printable((*pause)->reason), options.program,
               chosen.instance.name);
  if (is_known_dead(chosen.instance.entry))
    fmt::print(
        stderr,
        "{} the process of {} is gone: the goal waits on its board until `{} up --name {}`\n",
        options.err.yellow("warning:"), chosen.instance.name, options.program,
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
  // Subscribe before the goal exists, so that no event of its workflow is missed.
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
             "was made, or nothing is left to do; 1 when it failed or was cancelled, when nobody "
             "took it, or\n"
             "when the instance runs no more; 3 when Redis does not answer for a minute.\n\n"
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
      auto meant = which_of(which);
      ForageOptions options{*std::move(text), is_given(*watches), which.program,
                            meant.prefix,     context.out,        context.err};
      return with_board(context, meant, Need::running,
                        [&](Chosen& of) { return forage(of, std::move(options)); });
    };
  });
}

}  // namespace warren::cli
