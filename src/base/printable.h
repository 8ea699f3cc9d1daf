#pragma once
// Makes text from outside safe to show a person: file names, payloads, server answers, what a node
// reports about itself. Such text may contain anything, but it must not move the cursor, start a
// line that looks like ours, reverse the reading direction, or hide.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace warren {

// Control characters of ASCII and Latin-1, Unicode line ends, direction marks, and characters of
// zero width. Joiners that scripts and emoji need (U+200C, U+200D) are allowed.
constexpr bool is_unprintable(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  constexpr Range ranges[] = {{0, 0x1f},        {0x7f, 0x9f},      {0x61c, 0x61c},
                              {0x180e, 0x180e}, {0x200b, 0x200b},  {0x200e, 0x200f},
                              {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff},
                              {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
  return std::ranges::any_of(ranges, [c](Range r) { return c >= r.first && c <= r.last; });
}

// As one line: '?' replaces each unprintable character, U+FFFD each invalid UTF-8 byte.
inline std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    auto [value, length] = first_code_point(text);
    if (is_unprintable(value))
      out += '?';
    else if (value == 0xfffd)
      out += "\xef\xbf\xbd";
    else
      out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace warren
