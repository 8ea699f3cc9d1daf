#pragma once
// Text from outside on its way to a person: file names, payloads, what a server answers, what a node
// says of itself. It may say anything, and must not do anything: move the cursor, begin a line that
// looks like ours, turn the direction of reading, or hide.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace warren {

// Controls of ASCII and of Latin-1, line ends of Unicode, marks that turn the direction of reading, and
// characters without any width. What joins letters of a script or an emoji (U+200C, U+200D) is none of
// them.
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

// In one line: '?' for each of these, U+FFFD for what is no UTF-8, everything else as it is.
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
