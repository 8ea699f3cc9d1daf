#pragma once
// What this program writes to a terminal, whichever command writes it. Commands pass what comes from
// outside through printable(); this is for what does not pass there: JSON, in which only controls of
// ASCII are escaped, logs, texts that somebody forgot.
//
//   a file, a board, a server ─▶ printable() ─▶ a command ─▶ stdio ─▶ TerminalFilter ─▶ terminal
//                                                              └────────────────────────▶ pipe, file
//
// Rejected: this alone. It cannot tell a line end of ours from one in a text, nor our red from another.
#include <string>
#include <string_view>

namespace warren::cli {

// Lets through what is printable, line ends, tabs, and the few sequences that this program itself
// writes: colours of Paint and of the log, and how a bar takes itself back.
class TerminalFilter {
 public:
  // What may be written of all that was given. A character or sequence that may go on in the next
  // piece waits for it.
  std::string take(std::string_view piece);

 private:
  std::string waiting_;
};

// From now on stdout and stderr go through such a filter if they are terminals. Once, at the start.
void guard_terminals();

}  // namespace warren::cli
