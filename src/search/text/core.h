#pragma once
// Where to look for a match across lines without looking at everything.
//
//   \{\n\s*return\s0;\n\}     core: return\s0;\n\}, of 12 bytes at most
//                             before it: any number of bytes of \s, then at most two bytes
//
// A match is around each core, and how far it may reach from there is known: so a fast search for
// the core alone tells the few stretches of text in which the whole pattern is worth a try.
#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "search/text/literal.h"
#include "search/text/regex.h"

namespace warren::search {

struct Core {
  // Outwards: at most so many bytes, or any number of bytes of a set.
  struct Step {
    std::uint32_t most = 0;
    std::bitset<256> run = {};
  };
  Regex regex;  // in every match; no assertions, and not beyond ASCII but byte by byte
  std::uint32_t most_bytes = 0;
  std::vector<Step> before, after;  // the nearest first
};

// Nothing: no part of it is rare enough, or a match may reach through all of a text.
std::optional<Core> core_of(const Regex& regex);

// Turns places of the core into stretches that have every match whole.
class Stretches {
 public:
  Stretches(const Core& core, std::string_view text);
  // A core ends here; places ascend. Returns the stretch before this one, if that is another.
  std::optional<Span> add(std::size_t end);
  std::optional<Span> last() const { return stretch_; }

 private:
  // Bytes of a step's set that stand side by side, as far as they are known.
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
