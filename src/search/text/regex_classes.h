#pragma once
// The smallest parts of a regular expression: characters, escapes, classes.
#include <cstddef>
#include <optional>
#include <string_view>

#include "search/text/regex.h"

namespace warren::search {

struct RegexPart {
  RegexNode node;
  std::size_t size = 0;       // bytes of the pattern that it took
  bool says_newline = false;  // it names the line's end, or everything
};
// Of the text's beginning; nothing: not understood.
std::optional<RegexPart> read_character(std::string_view text, bool ignores_case);
std::optional<RegexPart> read_escape(std::string_view text, bool ignores_case);
std::optional<RegexPart> read_class(std::string_view text, bool ignores_case);

}  // namespace warren::search
