#include "search/query/query_words.h"

#include <re2/re2.h>

#include <charconv>

namespace warren::search {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The place after the closing quote; npos when there is none.
std::size_t end_of_quoted(std::string_view text, std::size_t begin) {
  for (std::size_t at = begin + 1; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return std::string_view::npos;
}

// The place after the class [...]; `begin` + 1 when it is not closed within the word.
std::size_t end_of_class(std::string_view text, std::size_t begin) {
  std::size_t at = begin + 1;
  if (at < text.size() && text[at] == '^') ++at;
  if (at < text.size() && text[at] == ']') ++at;
  for (; at < text.size() && !is_space(text[at]); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '[' && text.substr(at).starts_with("[:")) {
      auto end = text.find(":]", at);
      if (end != std::string_view::npos) at = end + 1;
    } else if (text[at] == ']')
      return at + 1;
  }
  return begin + 1;
}

std::string unquoted(std::string_view quoted) {
  std::string text;
  for (std::size_t i = 1; i + 1 < quoted.size(); ++i) {
    char c = quoted[i];
    if (c == '\\' && i + 2 < quoted.size()) {
      c = quoted[++i];
      if (c == 'n')
        c = '\n';
      else if (c == 't')
        c = '\t';
    }
    text += c;
  }
  return text;
}

}  // namespace

WordEnd end_of_word(std::string_view text, std::size_t begin) {
  WordEnd end;
  int depth = 0;
  std::size_t at = begin;
  while (at < text.size() && !is_space(text[at])) {
    char c = text[at];
    if (c == '"') {
      std::size_t after = end_of_quoted(text, at);
      if (after == std::string_view::npos) {
        end.open_quote = at;
        after = text.size();
      }
      at = after;
    } else if (c == '\\') {
      if (at + 1 == text.size()) end.lone_backslash = at;
      at += at + 1 == text.size() ? 1 : 2;
    } else if (c == '[') {
      at = end_of_class(text, at);
    } else {
      if (c == ')' && depth == 0) break;
      if (c == '(' && depth++ == 0) end.open_paren = at;
      if (c == ')') --depth;
      ++at;
    }
  }
  end.place = at;
  end.is_open_paren = depth > 0;
  return end;
}

Word read_word(std::string_view raw) {
  if (raw.starts_with('"') && end_of_quoted(raw, 0) == raw.size())
    return {.text = unquoted(raw), .is_literal = true};
  Word word;
  for (std::size_t at = 0; at < raw.size();) {
    std::size_t after = at + 1;
    if (raw[at] == '"') {
      after = end_of_quoted(raw, at);
      word.text += RE2::QuoteMeta(unquoted(raw.substr(at, after - at)));
    } else {
      if (raw[at] == '\\')
        after = std::min(at + 2, raw.size());
      else if (raw[at] == '[')
        after = end_of_class(raw, at);
      word.text += raw.substr(at, after - at);
    }
    at = after;
  }
  return word;
}

std::optional<std::string> literal_of(const Word& word) {
  if (word.is_literal) return word.text;
  std::string text;
  for (std::size_t i = 0; i < word.text.size(); ++i) {
    char c = word.text[i];
    if (c == '\\') {
      if (++i == word.text.size()) return std::nullopt;
      c = word.text[i];
      // A letter or digit after a backslash has a meaning of its own.
      if (c >= 0 && std::isalnum(static_cast<unsigned char>(c)) != 0) return std::nullopt;
      if (c < 0) return std::nullopt;
    } else if (std::string_view(".+*?()|[]{}^$").find(c) != std::string_view::npos) {
      return std::nullopt;
    }
    text += c;
  }
  return text;
}

Word as_glob(Word word) {
  if (word.is_literal || !word.text.starts_with('*')) return word;
  std::string regex;
  for (char c : word.text) {
    if (c == '*')
      regex += "[^/]*";
    else if (c == '?')
      regex += "[^/]";
    else
      regex += RE2::QuoteMeta(std::string(1, c));
  }
  return {.text = regex + "$"};
}

bool has_upper_case(const Pattern& pattern) {
  const std::string& text = pattern.text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (pattern.is_regex && text[i] == '\\') {
      ++i;
      continue;
    }
    if (pattern.is_regex && text.compare(i, 3, "(?P") == 0) {
      i += 2;
      continue;
    }
    if (text[i] >= 'A' && text[i] <= 'Z') return true;
  }
  return false;
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const char *begin = text.data(), *end = begin + text.size();
  auto parsed = std::from_chars(begin, end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number == 0) return std::nullopt;
  return number;
}

}  // namespace warren::search
