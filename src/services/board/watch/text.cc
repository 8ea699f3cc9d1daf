#include "services/board/watch/text.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/utf8.h"

namespace warren::watch {

namespace {

struct Range {
  char32_t first, last;
};
constexpr Range none_wide[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},
                               {0x610, 0x61a},   {0x64b, 0x65f},   {0x1ab0, 0x1aff},
                               {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x20d0, 0x20ff},
                               {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};
constexpr Range two_wide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2705, 0x2705},   {0x2728, 0x2728},
    {0x274c, 0x274c},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
    {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

template <std::size_t N>
bool is_in(const Range (&ranges)[N], char32_t c) {
  return std::ranges::any_of(ranges, [c](Range r) { return c >= r.first && c <= r.last; });
}

std::size_t width_of(char32_t c) { return is_in(none_wide, c) ? 0 : is_in(two_wide, c) ? 2 : 1; }

char32_t take(std::string_view& text) {
  auto [value, length] = first_code_point(text);
  text.remove_prefix(length);
  return value;
}

// A letter of a pattern, which may be escaped. None: the pattern ends before it.
std::optional<char32_t> take_letter(std::string_view& pattern) {
  if (!pattern.empty() && pattern[0] == '\\') pattern.remove_prefix(1);
  if (pattern.empty()) return {};
  return take(pattern);
}

// Behind "[", up to and with "]". None: malformed.
std::optional<bool> take_class(std::string_view& pattern, char32_t c) {
  bool is_negated = pattern.starts_with('^');
  if (is_negated) pattern.remove_prefix(1);
  bool is_found = false;
  for (bool is_first = true;; is_first = false) {
    if (!is_first && pattern.starts_with(']')) break;
    if (pattern.starts_with(']') || pattern.starts_with('-')) return {};
    auto low = take_letter(pattern);
    if (!low) return {};
    auto high = low;
    if (pattern.starts_with('-')) {
      pattern.remove_prefix(1);
      if (pattern.starts_with(']') || pattern.starts_with('-')) return {};
      high = take_letter(pattern);
      if (!high) return {};
    }
    is_found = is_found || (*low <= c && c <= *high);
  }
  pattern.remove_prefix(1);
  return is_found != is_negated;
}

// Takes one element, which is no '*', off a pattern that is well-formed, and a letter off the text.
bool take_match(std::string_view& pattern, std::string_view& text) {
  auto kind = pattern[0];
  auto c = take(text);
  if (kind == '?' || kind == '[') pattern.remove_prefix(1);
  if (kind == '?') return c != '/';
  if (kind == '[') return take_class(pattern, c).value_or(false);
  return take_letter(pattern) == c;
}

}  // namespace

std::size_t width(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) columns += width_of(take(text));
  return columns;
}

std::string cut(std::string_view text, std::size_t columns) {
  constexpr std::string_view dots = "...";
  std::size_t used = 0, fits = 0;  // `fits`: bytes that leave room for the dots
  auto rest = text;
  while (!rest.empty()) {
    used += width_of(take(rest));
    if (used + dots.size() <= columns) fits = text.size() - rest.size();
    if (used > columns) return std::string(text.substr(0, fits)).append(dots);
  }
  return std::string(text);
}

std::string padded(std::string text, std::size_t columns) {
  auto used = width(text);
  if (used < columns) text.append(columns - used, ' ');
  return text;
}

std::string_view first_line(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\v\f";
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    auto first = line.find_first_not_of(blanks);
    if (first != line.npos) return line.substr(first, line.find_last_not_of(blanks) + 1 - first);
  }
  return {};
}

bool is_pattern(std::string_view pattern) {
  while (!pattern.empty()) {
    if (pattern[0] == '[') {
      pattern.remove_prefix(1);
      if (!take_class(pattern, 0)) return false;
    } else if (!take_letter(pattern)) {
      return false;
    }
  }
  return true;
}

bool matches(std::string_view pattern, std::string_view text) {
  if (!is_pattern(pattern)) return false;
  // Behind the last '*', and where what it stands for ends so far: to go on one letter later.
  std::optional<std::string_view> star_pattern;
  std::string_view star_text;
  for (;;) {
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      star_pattern = pattern;
      star_text = text;
      continue;
    }
    if (pattern.empty() && text.empty()) return true;
    if (!pattern.empty() && !text.empty() && take_match(pattern, text)) continue;
    if (!star_pattern || star_text.empty() || take(star_text) == '/') return false;
    pattern = *star_pattern;
    text = star_text;
  }
}

}  // namespace warren::watch
