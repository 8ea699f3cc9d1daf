// warren questions, answer, explain, cancel, retry, pause and resume: a person's actions on the
// work on a board.
#include "services/board/orchestrator/control.h"

#include <fmt/format.h>

#include "cli/board/crew_file.h"
#include "cli/instance/daemon.h"
#include "cli/instance/which.h"

namespace warren::cli {

namespace {

constexpr std::size_t longest_text = 64u << 10;

Result<> check_text(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) return fail(Errc::invalid, "it is empty");
  if (text.size() > longest_text)
    return fail(Errc::invalid, "it is longer than {} bytes", longest_text);
  return ok;
}

CLI::Option* add_id(CLI::App& app, const std::string& help) {
  auto* id =
      add_value(app, "id", "ID", help + "; its first four characters may be enough", nullptr);
  require(*id);
  return id;
}

// Runs one step on the board of the chosen instance, with the words of the command line.
using Step = Async<Exit> (*)(Chosen& chosen, std::vector<std::string> words);
void add_step(CLI::App& app, Action& chosen, std::vector<CLI::Option*> words, Step step) {
  auto which = add_which(app);
  when_chosen(app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      std::vector<std::string> values;
      for (auto* word : words) values.push_back(value_of(*word));
      return with_board(context, which_of(which), Need::data,
                        [&](Chosen& of) { return step(of, std::move(values)); });
    };
  });
}

Async<Exit> list_questions(Chosen& chosen, std::vector<std::string> /*words*/) {
  auto questions = co_await orchestrator::questions(chosen.board);
  if (!questions) co_return std::unexpected(questions.error());
  for (const auto& question : *questions)
    fmt::print("{}  {}  {}\n", printable(question.id), printable(question.produced_by_role),
               printable(question.payload));
  if (questions->empty()) fmt::print(stderr, "No question is open.\n");
  co_return Exit::ok;
}

Async<Exit> give_answer(Chosen& chosen, std::vector<std::string> words) {
  auto id = co_await chosen.board.find_artefact(words[0]);
  if (!id) co_return std::unexpected(id.error());
  auto answer = co_await orchestrator::answer(chosen.board, *id, std::move(words[1]));
  if (!answer) co_return std::unexpected(answer.error());
  fmt::print("Answered: {}\n", answer->id);
  co_return Exit::ok;
}

// Without a claim there is no open work.
Async<Exit> explain_unclaimed(const Board& board, std::string id) {
  auto artefact = co_await board.artefact(id);
  if (!artefact) co_return std::unexpected(artefact.error());
  auto type = artefact->structural_type;
  if (board::needs_claim(type))
    fmt::print("Artefact {} has no claim yet: no orchestrator has seen it.\n", id);
  else
    fmt::print("Artefact {} is of the kind {}: nobody claims those, and nothing is to be done.\n",
               id, board::name(type));
  co_return Exit::ok;
}

Async<Exit> explain_claim(Chosen& chosen, std::string id, std::optional<Crew> crew) {
  auto claim = co_await chosen.board.find_claim(id);
  if (!claim && claim.error().code == Errc::not_found) {
    // A person is more likely to know the artefact's id.
    auto artefact = co_await chosen.board.find_artefact(id);
    if (!artefact) co_return std::unexpected(claim.error());
    auto on = co_await chosen.board.claim_on(*artefact);
    if (!on && on.error().code == Errc::not_found) {
      auto unclaimed = co_await explain_unclaimed(chosen.board, *std::move(artefact));
      co_return unclaimed;
    }
    if (!on) co_return std::unexpected(on.error());
    claim = on->id;
  }
  if (!claim) co_return std::unexpected(claim.error());
  std::optional<OrchestratorTerms> terms;
  if (crew) terms = orchestrator_terms(*crew);
  auto explained = co_await orchestrator::explain(chosen.board, *claim, std::move(terms));
  if (!explained) co_return std::unexpected(explained.error());
  fmt::print("{}{}", explained->text, explained->text.ends_with('\n') ? "" : "\n");
  co_return Exit::ok;
}

Async<Exit> cancel_work(Chosen& chosen, std::vector<std::string> words) {
  auto id = co_await chosen.board.find_claim(words[0]);
  if (!id && id.error().code == Errc::not_found) id = co_await chosen.board.find_artefact(words[0]);
  if (!id) co_return std::unexpected(id.error());
  auto ended = co_await orchestrator::cancel(chosen.board, *id, std::move(words[1]));
  if (!ended) co_return std::unexpected(ended.error());
  fmt::print("Cancelled: {}\n", *id);
  co_return Exit::ok;
}

Async<Exit> retry_claim(Chosen& chosen, std::vector<std::string> words) {
  auto id = co_await chosen.board.find_claim(words[0]);
  if (!id) co_return std::unexpected(id.error());
  auto again = co_await orchestrator::retry(chosen.board, *id);
  if (!again) co_return std::unexpected(again.error());
  fmt::print("New claim: {}\n", again->id);
  co_return Exit::ok;
}

Async<Exit> pause_work(Chosen& chosen, std::vector<std::string> words) {
  auto paused = co_await orchestrator::pause(chosen.board, std::move(words[0]));
  if (!paused) co_return std::unexpected(paused.error());
  fmt::print("Paused instance: {}\n", chosen.instance.name);
  co_return Exit::ok;
}

Async<Exit> resume_work(Chosen& chosen, std::vector<std::string> /*words*/) {
  auto resumed = co_await orchestrator::resume(chosen.board);
  if (!resumed) co_return std::unexpected(resumed.error());
  fmt::print("Resumed instance: {}\n", chosen.instance.name);
  co_return Exit::ok;
}

CLI::App* add_control(CLI::App& root, const char* name, const char* what, const char* more) {
  auto* app = add_command(root, name, what, "Work and watch");
  set_footer(*app, more);
  return app;
}

}  // namespace

void add_questions(CLI::App& root, Action& chosen) {
  auto* app = add_control(root, "questions", "What agents ask, and nobody has answered",
                          "One on a line: id, who asks, the question; the oldest first.");
  add_step(*app, chosen, {}, list_questions);
}

void add_answer(CLI::App& root, Action& chosen) {
  auto* app = add_control(root, "answer", "Answer a question of an agent",
                          "Example\n  warren answer 3f2a \"the blue one\"");
  auto* id = add_id(*app, "the question");
  auto* text = add_value(*app, "text", "TEXT", "the answer", check_text);
  require(*text);
  add_step(*app, chosen, {id, text}, give_answer);
}

void add_explain(CLI::App& root, Action& chosen) {
  auto* app = add_control(
      root, "explain", "Why a claim is not done yet",
      "Whose bids are missing, who was granted it and has not delivered, where it stands "
      "in a\nqueue, or how it ended.\n\nExample\n  warren explain 3f2a");
  auto which = add_which(*app);
  auto* id = add_id(*app, "a claim, or the artefact that it is on");
  auto crew_file = crew_file_name(*app);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto crew = find_crew(context, crew_file);
      if (!crew) return std::unexpected(crew.error());
      return with_board(context, which_of(which), Need::data, [&](Chosen& of) {
        return explain_claim(of, value_of(*id), *std::move(crew));
      });
    };
  });
}

void add_cancel(CLI::App& root, Action& chosen) {
  auto* app = add_control(root, "cancel", "End a claim, or all work on a goal",
                          "Example\n  warren cancel 3f2a --reason \"not needed any more\"");
  auto* id = add_id(*app, "a claim, or a goal");
  auto* reason = add_value(*app, "--reason", "TEXT", "is told to whoever asks", check_text,
                           "cancelled by the user");
  add_step(*app, chosen, {id, reason}, cancel_work);
}

void add_retry(CLI::App& root, Action& chosen) {
  auto* app = add_control(root, "retry", "Try again what a terminated claim was about",
                          "Example\n  warren retry 3f2a");
  auto* id = add_id(*app, "a terminated claim");
  add_step(*app, chosen, {id}, retry_claim);
}

void add_pause(CLI::App& root, Action& chosen) {
  auto* app = add_control(root, "pause", "Let an instance begin no further work",
                          "Who works goes on until he is done. It lasts until `warren resume`.");
  auto* reason = add_value(*app, "--reason", "TEXT", "is told to whoever asks", check_text,
                           "paused by the user");
  add_step(*app, chosen, {reason}, pause_work);
}

void add_resume(CLI::App& root, Action& chosen) {
  auto* app =
      add_control(root, "resume", "Let a paused instance go on", "Example\n  warren resume");
  add_step(*app, chosen, {}, resume_work);
}

}  // namespace warren::cli
