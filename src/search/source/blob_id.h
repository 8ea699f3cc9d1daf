#pragma once
// git's object ids, in git's hex notation and in binary form.
#include <string>
#include <string_view>

namespace warren::search {

inline std::string raw_id(std::string_view hex) {
  auto digit = [](char c) { return (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10) & 15; };
  std::string raw;
  raw.reserve(hex.size() / 2);
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    raw += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
  return raw;
}

inline std::string hex_id(std::string_view raw) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex;
  hex.reserve(raw.size() * 2);
  for (unsigned char byte : raw) {
    hex += digits[byte >> 4];
    hex += digits[byte & 15];
  }
  return hex;
}

}  // namespace warren::search
