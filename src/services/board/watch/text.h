#pragma once
// Text from strangers, in columns of a terminal.
#include <string>
#include <string_view>

#include "base/printable.h"

namespace warren::watch {

inline std::string shown(std::string_view text) { return printable(text); }
// How many columns it takes: wide letters and most emoji take two, accents of their own none.
std::size_t width(std::string_view text);
// At most so many columns; what is longer ends in "...". Never a part of a letter.
std::string cut(std::string_view text, std::size_t columns);
// Filled up with spaces.
std::string padded(std::string text, std::size_t columns);
// The first line that is not blank, without the blanks around it.
std::string_view first_line(std::string_view text);

// Go's path.Match over all of the text: '*' and '?' do not match '/', [a-z], [^a], '\' escapes. A
// pattern that is malformed matches nothing.
bool matches(std::string_view pattern, std::string_view text);
bool is_pattern(std::string_view pattern);  // well-formed

}  // namespace warren::watch
