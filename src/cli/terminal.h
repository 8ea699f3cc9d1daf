#pragma once
// Filters everything that this program writes to a terminal, whichever command writes it. Commands
// pass foreign text through printable(). This filter is for what bypasses that: JSON, which escapes
// only ASCII control characters, logs, and texts that someone forgot.
//
//   a file, a board, a server ─▶ printable() ─▶ a command ─▶ stdio ─▶ TerminalFilter ─▶ terminal
//                                                              └────────────────────────▶ pipe, file
//
// Rejected: only this filter. It cannot tell our line ends or our red from those in a text.
#include <string>
#include <string_view>

namespace warren::cli {

// Lets through printable text, line ends, tabs, and the few sequences that this program itself
// writes: the colours of Paint and of the log, and the sequence that erases a progress bar.
class TerminalFilter {
 public:
  // Returns the part of the text so far that may be written. A character or sequence that may
  // continue in the next piece is held back.
  std::string take(std::string_view piece);

 private:
  std::string waiting_;
};

// From now on stdout and stderr are filtered if they are terminals. Call it once, at the start.
void guard_terminals();

}  // namespace warren::cli
