#pragma once
// Where to look for a match across lines without examining all of the text.
//
//   \{\n\s*return\s0;\n\}     core: return\s0;\n\}, of 12 bytes at most
//                             before it: any number of bytes of \s, then at most two bytes
//
// Every match surrounds a core, and how far it may extend from there is known. So a fast search for
// the core alone finds the few stretches of text in which the whole pattern is worth trying.
#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "search/text/literal.h"
#include "search/text/regex.h"

namespace warren::search {

struct Core {
  // Outwards: at most this many bytes, or any number of bytes from a set.
  struct Step {
    std::uint32_t most = 0;
    std::bitset<256> run = {};
  };
  Regex regex;  // part of every match; no assertions, and non-ASCII only as bytes
  std::uint32_t most_bytes = 0;
  std::vector<Step> before, after;  // the nearest first
};

// Returns nullopt if no part of it is rare enough, or if a match may extend over the whole text.
std::optional<Core> core_of(const Regex& regex);

// Turns places of the core into stretches that contain every match completely.
class Stretches {
 public:
  Stretches(const Core& core, std::string_view text);
  // A core ends here; places ascend. Returns the previous stretch, if a new one begins.
  std::optional<Span> add(std::size_t end);
  std::optional<Span> last() const { return stretch_; }

 private:
  // Adjacent bytes of a step's set, as far as they are known.
  struct Run {
    std::size_t begin = 0, end = 0;
  };
  std::size_t back(const Core::Step& step, Run& run, std::size_t from) const;
  std::size_t forth(const Core::Step& step, Run& run, std::size_t from) const;

  const Core& core_;
  std::string_view text_;
  std::vector<Run> before_, after_;
  std::optional<Span> stretch_;
};

}  // namespace warren::search
