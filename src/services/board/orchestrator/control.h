#pragma once
// What a user may do to the work on a board, with or without a running orchestrator. Each call
// takes effect at once where nobody has to do anything for it, and otherwise as soon as an
// orchestrator hears of it.
#include <optional>
#include <string>
#include <vector>

#include "services/board/orchestrator/terms.h"
#include "services/board/store/board.h"

namespace warren::orchestrator {

// Questions that nobody has answered, the oldest first.
Async<std::vector<board::Artefact>> questions(Board board);
// Returns the answer, an artefact by `user` with the question as its source; it ends the claim on
// the question. Errc::invalid: that is no question. Errc::refused: it is answered.
Async<board::Artefact> answer(Board board, std::string question_id, std::string text);

// Ends a claim; or, given the id of a goal, all work that came of it, also what is made of it
// later. Returns how many claims it ended. Errc::refused: the claim is over. Errc::not_found.
Async<std::size_t> cancel(Board board, std::string id, std::string reason);
// A new claim on the artefact of a terminated one, or of one that all left alone: for bids, or if
// that was a feedback claim, for the same agent. Returns it. Errc::refused: it is neither, or
// another claim on the artefact is open. Errc::held_elsewhere: somebody else did so at the same time. The goal is not cancelled
// any more.
Async<board::Claim> retry(Board board, std::string claim_id);

// How many claims wait for somebody who wants them.
Async<std::size_t> count_untaken(Board board);

// While it is paused nothing is granted; agents bid, finish what they have, and claims end. Lasts
// until it is resumed, whoever is the orchestrator.
struct Pause {
  board::UnixTime since{};
  std::string reason;
};
// From what stands on the board.
Pause parse_pause(std::string_view text);
Async<> pause(Board board, std::string reason);
Async<> resume(Board board);
Async<std::optional<Pause>> paused(Board board);

// Why a claim is not over.
struct Explanation {
  board::Claim claim;
  board::Artefact target;
  std::optional<board::UnixTime> claimed_at;  // unknown for what the Go program wrote
  board::Bids bids;
  board::Words missing_bids;                  // of the roles in the terms; empty without terms
  board::Words awaited;                       // were granted it, and have not delivered
  std::optional<std::size_t> queue_position;  // 0 is next
  std::optional<Pause> pause;
  std::int64_t iteration = 0;  // how often the artefact was reworked
  std::string text;            // all of it, line by line, for people
};
// With the terms of the orchestrator it knows whose bids are missing. Errc::not_found.
Async<Explanation> explain(Board board, std::string claim_id,
                           std::optional<OrchestratorTerms> terms = {});

}  // namespace warren::orchestrator
