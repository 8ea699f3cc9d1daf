#pragma once
// Makes text from outside safe for JSON and for a terminal.
#include <cstdint>
#include <string>
#include <string_view>

namespace warren {

struct CodePoint {
  char32_t value;      // U+FFFD for an invalid byte
  std::size_t length;  // in bytes, at least 1
};

// The first code point of the text. Overlong forms, surrogates and values past U+10FFFF are
// invalid.
inline CodePoint first_code_point(std::string_view text) {
  constexpr CodePoint invalid{0xfffd, 1};
  auto byte = [&](std::size_t i) { return std::uint8_t(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  std::size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return invalid;
  char32_t value = byte(0) & (0x7f >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return invalid;
    value = value << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < least[length] || value > 0x10ffff || surrogate) return invalid;
  return {value, length};
}

// The same text with U+FFFD in place of every invalid byte.
inline std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    auto [value, length] = first_code_point(text);
    // U+FFFD itself is three bytes long, so length 1 means a replacement.
    out += value == 0xfffd && length == 1 ? "\xef\xbf\xbd" : text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace warren
