#pragma once
// One grant, worked off: the tool is run in its folder or its image, as often as the role allows,
// and what it wrote becomes an artefact, or why it wrote nothing useful does.
#include "services/board/agent/tool.h"
#include "services/board/crew/crew.h"
#include "services/board/store/types.h"

namespace warren::agent {

struct Job {
  const crew::Role& role;
  const std::filesystem::path& workspace;
  board::Claim claim;
  board::BidType claim_type;
  board::Artefact target;
  std::vector<board::Artefact> context;
};

// The result, or a Failure: under the id that belongs to this claim and role in either case.
// Errc::cancelled: the caller was, the tool is gone, and nothing is to be written.
Async<board::Artefact> work_off(const Job& job);

// A Failure, for reasons that come before any tool.
board::Artefact failure_of(const crew::Role& role, const board::Claim& claim,
                           std::string_view reason, const ToolEnd& end = {});

// How a role's command, or its bid script, is run in the workspace. Its result is that of a tool; a
// container does not outlive this call.
Async<ToolEnd> run_for_role(const crew::Role& role, ToolTerms tool);
ToolTerms terms_for_role(const crew::Role& role, std::filesystem::path folder);

}  // namespace warren::agent
