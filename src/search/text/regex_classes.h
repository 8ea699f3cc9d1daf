#pragma once
// The smallest parts of a regular expression: characters, escapes, classes.
#include <cstddef>
#include <optional>
#include <string_view>

#include "search/text/regex.h"

namespace warren::search {

struct RegexPart {
  RegexNode node;
  std::size_t size = 0;       // how many bytes of the pattern it consumed
  bool says_newline = false;  // it names the line end, or everything
};
// Each reads the beginning of the text. They return nullopt if it is not understood.
std::optional<RegexPart> read_character(std::string_view text, bool ignores_case);
std::optional<RegexPart> read_escape(std::string_view text, bool ignores_case);
std::optional<RegexPart> read_class(std::string_view text, bool ignores_case);

}  // namespace warren::search
