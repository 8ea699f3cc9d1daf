#include "search/text/regex_classes.h"

#include <fmt/format.h>

#include <array>

namespace warren::search {
namespace {

using Kind = RegexNode::Kind;
using Set = std::bitset<128>;

Set range(int first, int last) {
  Set set;
  for (int c = first; c <= last; ++c) set.set(static_cast<std::size_t>(c));
  return set;
}
Set digits() { return range('0', '9'); }
Set word() { return digits() | range('a', 'z') | range('A', 'Z') | range('_', '_'); }
Set spaces() { return range('\t', '\n') | range('\f', '\r') | range(' ', ' '); }

void fold(Set& set) {
  for (std::size_t c = 'a'; c <= 'z'; ++c) {
    std::size_t upper = c - 32;
    if (set[c] || set[upper]) set.set(c).set(upper);
  }
}

// \d \D \s \S \w \W
bool perl_class(char c, Set& set, bool& is_negated) {
  switch (c) {
    case 'd':
    case 'D':
      set = digits();
      break;
    case 's':
    case 'S':
      set = spaces();
      break;
    case 'w':
    case 'W':
      set = word();
      break;
    default:
      return false;
  }
  is_negated = c < 'a';
  return true;
}

bool posix_class(std::string_view name, Set& set) {
  if (name == "alnum")
    set = digits() | range('a', 'z') | range('A', 'Z');
  else if (name == "alpha")
    set = range('a', 'z') | range('A', 'Z');
  else if (name == "ascii")
    set = range(0, 127);
  else if (name == "blank")
    set = range('\t', '\t') | range(' ', ' ');
  else if (name == "cntrl")
    set = range(0, 31) | range(127, 127);
  else if (name == "digit")
    set = digits();
  else if (name == "graph")
    set = range('!', '~');
  else if (name == "lower")
    set = range('a', 'z');
  else if (name == "print")
    set = range(' ', '~');
  else if (name == "punct")
    set = range('!', '/') | range(':', '@') | range('[', '`') | range('{', '~');
  else if (name == "space")
    set = range('\t', '\r') | range(' ', ' ');
  else if (name == "upper")
    set = range('A', 'Z');
  else if (name == "word")
    set = word();
  else if (name == "xdigit")
    set = digits() | range('a', 'f') | range('A', 'F');
  else
    return false;
  return true;
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct Code {
  int value = 0;
  std::size_t size = 0;
};
// \n \x41 \x{41} \. and the like. Rare and non-ASCII ones are not understood.
std::optional<Code> escaped_code(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  switch (char c = text[1]) {
    case 'n':
      return Code{'\n', 2};
    case 't':
      return Code{'\t', 2};
    case 'r':
      return Code{'\r', 2};
    case 'f':
      return Code{'\f', 2};
    case 'v':
      return Code{'\v', 2};
    case 'a':
      return Code{'\a', 2};
    case 'x':
      break;
    default:
      if (static_cast<unsigned char>(c) >= 0x80 || std::isalnum(static_cast<unsigned char>(c)) != 0)
        return std::nullopt;
      return Code{c, 2};
  }
  int value = 0;
  std::size_t at = 2;
  bool is_braced = text.substr(at).starts_with("{");
  if (is_braced) ++at;
  std::size_t start = at;
  for (; at < text.size() && hex(text[at]) >= 0 && at - start < (is_braced ? 6u : 2u); ++at)
    value = value * 16 + hex(text[at]);
  if (at == start || (!is_braced && at - start != 2) || value >= 128) return std::nullopt;
  if (!is_braced) return Code{value, at};
  if (at == text.size() || text[at] != '}') return std::nullopt;
  return Code{value, at + 1};
}

RegexPart chars(Set set, bool has_others, std::size_t size) {
  RegexPart part;
  part.node.kind = Kind::chars;
  part.node.ascii = set;
  part.node.has_others = has_others;
  part.size = size;
  return part;
}

RegexPart one_char(int code, bool ignores_case, std::size_t size) {
  Set set = range(code, code);
  if (ignores_case) fold(set);
  RegexPart part = chars(set, false, size);
  part.says_newline = code == '\n';
  return part;
}

// The length of the UTF-8 character at the beginning of the text; 0 if it is invalid.
std::size_t utf8_size(std::string_view text) {
  auto first = static_cast<unsigned char>(text[0]);
  std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  return size;
}

// The contents of a class so far.
struct ClassSoFar {
  Set set;
  bool has_others = false, says_newline = false;
};

// One item of a class: a posix or Perl class, a character, a range. Returns false if not
// understood.
bool read_item(std::string_view text, std::size_t& at, ClassSoFar& so_far) {
  Set set;
  bool is_negated = false;
  if (text.substr(at).starts_with("[:")) {
    auto end = text.find(":]", at);
    if (end == std::string_view::npos) return false;
    auto name = text.substr(at + 2, end - at - 2);
    if (name.starts_with('^')) is_negated = true, name.remove_prefix(1);
    if (!posix_class(name, set)) return false;
    at = end + 2;
  } else if (text[at] == '\\' && at + 1 < text.size() &&
             perl_class(text[at + 1], set, is_negated)) {
    at += 2;
  } else {
    auto code = [&]() -> std::optional<int> {
      if (at >= text.size() || static_cast<unsigned char>(text[at]) >= 0x80) return std::nullopt;
      if (text[at] != '\\') return text[at++];
      auto read = escaped_code(text.substr(at));
      if (!read) return std::nullopt;
      at += read->size;
      return read->value;
    };
    auto first = code();
    if (!first) return false;
    auto last = first;
    if (at + 1 < text.size() && text[at] == '-' && text[at + 1] != ']') {
      ++at;
      last = code();
      if (!last || *last < *first) return false;
    }
    so_far.says_newline |= first == '\n' || last == '\n';
    set = range(*first, *last);
  }
  so_far.has_others |= is_negated;
  so_far.set |= is_negated ? ~set : set;
  return true;
}

// Passed to RE2 without being understood here. Ignoring case then follows Unicode.
RegexPart opaque(std::string_view text, bool ignores_case) {
  RegexPart part;
  part.size = text.size();
  part.node.kind = Kind::opaque;
  part.node.text = ignores_case ? fmt::format("(?i:{})", text) : std::string(text);
  return part;
}

// A class that is not purely ASCII, passed on unchanged.
std::optional<RegexPart> read_opaque_class(std::string_view text, bool ignores_case) {
  bool is_negated = text.size() > 1 && text[1] == '^', says_newline = false;
  std::size_t first = is_negated ? 2 : 1, at = first;
  for (; at < text.size() && (text[at] != ']' || at == first); ++at) {
    auto rest = text.substr(at);
    if (rest.starts_with("\\Q")) return std::nullopt;
    for (std::string_view word : {"\n", "\\n", "\\x0a", "\\x0A", "\\x{a}", "\\x{A}"})
      says_newline |= !is_negated && rest.starts_with(word);
    if (rest.starts_with("\\"))
      ++at;
    else if (auto end = text.find(":]", at); rest.starts_with("[:") && end != text.npos)
      at = end + 1;
  }
  if (at >= text.size()) return std::nullopt;
  auto part = opaque(text.substr(0, at + 1), ignores_case);
  part.says_newline = says_newline;
  return part;
}

// \pL \p{Greek} \P{…}
std::optional<RegexPart> read_property(std::string_view text, bool ignores_case) {
  if (text.size() < 3 || (text[1] != 'p' && text[1] != 'P')) return std::nullopt;
  if (text[2] != '{') return opaque(text.substr(0, 3), ignores_case);
  auto end = text.find('}');
  if (end == text.npos) return std::nullopt;
  return opaque(text.substr(0, end + 1), ignores_case);
}

// \xE9 and \x{212A}, beyond ASCII.
std::optional<RegexPart> read_code(std::string_view text, bool ignores_case) {
  std::uint32_t value = 0;
  if (!text.starts_with("\\x")) return std::nullopt;
  bool is_braced = text.substr(2).starts_with("{");
  std::size_t first = is_braced ? 3 : 2, at = first;
  for (; at < text.size() && hex(text[at]) >= 0 && at - first < (is_braced ? 6u : 2u); ++at)
    value = value * 16 + static_cast<std::uint32_t>(hex(text[at]));
  if (value < 0x80 || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return std::nullopt;
  if (is_braced && (at == text.size() || text[at] != '}')) return std::nullopt;
  if (is_braced) ++at;
  std::string utf8;
  auto tail = [&](int bits) { utf8 += static_cast<char>(0x80 | (value >> bits & 0x3F)); };
  if (value < 0x800) {
    utf8 += static_cast<char>(0xC0 | value >> 6);
  } else if (value < 0x10000) {
    utf8 += static_cast<char>(0xE0 | value >> 12);
    tail(6);
  } else {
    utf8 += static_cast<char>(0xF0 | value >> 18);
    tail(12);
    tail(6);
  }
  tail(0);
  auto part = read_character(utf8, ignores_case);
  if (part) part->size = at;
  return part;
}

}  // namespace

std::optional<RegexPart> read_character(std::string_view text, bool ignores_case) {
  if (static_cast<unsigned char>(text[0]) < 0x80) return one_char(text[0], ignores_case, 1);
  std::size_t size = utf8_size(text);
  if (size == 0) return std::nullopt;
  RegexPart part;
  part.size = size;
  part.node.kind = ignores_case ? Kind::opaque : Kind::bytes;
  part.node.text = text.substr(0, size);
  if (ignores_case) part.node.text = fmt::format("(?i:{})", part.node.text);
  return part;
}

std::optional<RegexPart> read_escape(std::string_view text, bool ignores_case) {
  if (text.size() < 2) return std::nullopt;
  Set set;
  bool is_negated = false;
  if (perl_class(text[1], set, is_negated)) return chars(is_negated ? ~set : set, is_negated, 2);
  if (auto code = escaped_code(text)) return one_char(code->value, ignores_case, code->size);
  if (auto property = read_property(text, ignores_case)) return property;
  return read_code(text, ignores_case);
}

std::optional<RegexPart> read_class(std::string_view text, bool ignores_case) {
  std::size_t at = 1;
  bool is_negated = at < text.size() && text[at] == '^';
  if (is_negated) ++at;
  ClassSoFar so_far;
  for (bool is_first = true; at < text.size() && (text[at] != ']' || is_first); is_first = false)
    if (!read_item(text, at, so_far)) return read_opaque_class(text, ignores_case);
  if (at >= text.size()) return std::nullopt;
  if (ignores_case) fold(so_far.set);
  if (is_negated) {
    so_far.set.flip();
    so_far.has_others = !so_far.has_others;
    so_far.says_newline = false;
  }
  RegexPart part = chars(so_far.set, so_far.has_others, at + 1);
  part.says_newline = so_far.says_newline || (so_far.set.all() && so_far.has_others);
  return part;
}

}  // namespace warren::search
