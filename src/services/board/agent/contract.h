#pragma once
// What a tool is told and what it answers: JSON on standard input and output.
//
//   {"claim_type":"review","target_artefact":{"id":…},"context_chain":[{…},{…}]}
//   {"artefact_type":"Draft","artefact_payload":"…","summary":"wrote a draft"}
//
// The input has no blanks, and its members stand in this order: simple tools find them with grep.
#include <string>
#include <string_view>
#include <vector>

#include "services/board/agent/tool.h"
#include "services/board/store/types.h"

namespace warren::agent {

std::string tool_input(board::BidType claim_type, const board::Artefact& target,
                       const std::vector<board::Artefact>& context);

struct ToolOutput {
  std::string artefact_type;
  std::string payload;
  board::StructuralType structural_type = board::StructuralType::standard;
};
// Errc::invalid says which rule is broken.
Result<ToolOutput> parse_tool_output(std::string_view text);

// The answer of a bid script: one word, with blanks around it.
Result<board::BidType> parse_bid(std::string_view text);

// Why there is no result. Output is cut at 5000 bytes, between two characters.
std::string failure_payload(std::string_view reason, const ToolEnd& end);
// What is wrong with how a tool ended; empty when it ended well.
std::string complaint(const ToolEnd& end, Clock::duration timeout);

// Always the same for a claim and a role, so that one grant has one result, whoever makes it and
// however often (a version 5 UUID).
std::string result_id(std::string_view claim_id, std::string_view role);

}  // namespace warren::agent
