#pragma once
// Where names are defined, as universal-ctags sees it.
//
// The program is a child with its own sandbox (no files, no network), little memory, and a few
// seconds for each file. A file that it does not survive has no symbols; the next one gets a new
// child. Where there is no such program, segments stay without symbols: that is no error.
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
  std::size_t memory_bytes = std::size_t{2} << 30;  // Errc::overloaded when it would need more
  std::chrono::milliseconds per_file = 5s;
  std::size_t largest_file = 1u << 20;
  // How much is done, 0 to 1, now and then; on the thread that calls.
  std::function<void(double part)> progress = nullptr;
};

// The same segment with symbols; itself when the program is not there.
Result<std::shared_ptr<const Segment>> with_symbols(std::shared_ptr<const Segment> segment,
                                                    const SymbolTerms& terms = {});

// In the section of symbols: in the order of the names without regard to case, then of the names.
struct SymbolEntry {
  std::uint32_t name, parent;  // places in the section of names, each ended by a NUL
  std::uint32_t file;
  std::uint32_t line_and_kind;  // line << 8 | kind
};
static_assert(sizeof(SymbolEntry) == 16);
// The section of names begins with the count of kinds and the places of their names.

bool has_sound_symbols(const Segment::Parts& parts);

}  // namespace warren::search
