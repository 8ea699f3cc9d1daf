#pragma once
// What a tool should know besides its target: the artefacts that this one came from.
#include "services/board/store/board.h"

namespace warren::agent {

// From the target's sources and the reviews that a feedback claim is about, ten levels back, each
// logical artefact once in its newest version; of these Standard, Answer and Review. The oldest
// comes first, then by id, so that the same board gives the same context. Errc::refused: more
// than 4096 artefacts or 64 MiB of payload.
Async<std::vector<board::Artefact>> assemble_context(const Board& board, board::Artefact target,
                                                     board::Words additional);

}  // namespace warren::agent
