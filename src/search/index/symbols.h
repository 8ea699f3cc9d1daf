#pragma once
// Where names are defined, according to universal-ctags.
//
// The program runs as a child in its own sandbox (no files, no network), with little memory and a
// few seconds per file. A file that crashes it has no symbols, and the next file gets a new child.
// If the program is not installed, segments have no symbols. That is not an error.
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "search/index/parts.h"

namespace warren::search {

struct SymbolTerms {
  std::string program = "ctags";
  int threads = 2;
  std::size_t memory_bytes = std::size_t{2} << 30;  // beyond this, Errc::overloaded
  std::chrono::milliseconds per_file = 5s;
  std::size_t largest_file = 1u << 20;
  // Called now and then, on the calling thread, with the completed share, 0 to 1.
  std::function<void(double part)> progress = nullptr;
};

// Returns the same segment with symbols, or the segment itself if ctags is not installed.
Result<std::shared_ptr<const Segment>> with_symbols(std::shared_ptr<const Segment> segment,
                                                    const SymbolTerms& terms = {});

// An entry in the section of symbols. Sorted by name without regard to case, then by exact name.
struct SymbolEntry {
  std::uint32_t name, parent;  // positions in the section of names, which end with NUL
  std::uint32_t file;
  std::uint32_t line_and_kind;  // line << 8 | kind
};
static_assert(sizeof(SymbolEntry) == 16);
// The section of names begins with the number of kinds and the positions of their names.

bool has_sound_symbols(const Segment::Parts& parts);

}  // namespace warren::search
