#pragma once
// Something that happened on a board, heard as it happened or read from what it left behind.
//
// Both ways give the same happening the same key, so that it is shown once. Artefacts and claims
// stay; of what workflow events tell, history knows reworks and reviews, and nothing of bids and
// grants, which leave no time behind.
#include <string>
#include <variant>
#include <vector>

#include "services/board/store/board.h"

namespace warren::watch {

struct Happening {
  board::UnixTime at{};  // of an artefact, its own; 0 when nobody knows
  std::variant<board::Artefact, board::Claim, board::WorkflowEvent> what;
};

// Empty: it cannot come twice.
std::string key_of(const Happening& happening);
bool is_terminal(const Happening& happening);

// What an artefact says about the past: that it was created; if it is a later version, that it was
// reworked; if it is a review, how it turned out.
std::vector<Happening> history_of(board::Artefact artefact);
// A review approves when its payload is an empty JSON object or array.
bool is_approval(std::string_view payload);
// What a Failure tells: its reason, or the first line of its payload where it has none.
std::string why_of(const board::Artefact& failure);

// What it is about; empty as far as it does not say.
struct Subject {
  std::string artefact_id, claim_id, type;
  std::vector<std::string> agents;
};
Subject subject_of(const Happening& happening);

// A member of the data of a workflow event; empty when there is none, or when it is no text.
std::string text_of(const board::WorkflowEvent& event, std::string_view member);

}  // namespace warren::watch
