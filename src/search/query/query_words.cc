#include "search/query/query_words.h"

#include <re2/re2.h>

#include <charconv>

namespace warren::search {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The position after the closing quote. Returns npos if there is none.
std::size_t end_of_quoted(std::string_view text, std::size_t begin) {
  for (std::size_t at = begin + 1; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return std::string_view::npos;
}

// The position after the class [...]. Returns `begin` + 1 if it is not closed within the word.
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

// Removes only backslashes that precede one of these characters.
std::string unquoted(std::string_view quotation) {
  std::string text;
  for (std::size_t i = 1; i + 1 < quotation.size(); ++i) {
    char c = quotation[i];
    char next = c == '\\' && i + 2 < quotation.size() ? quotation[i + 1] : '\0';
    bool is_escape = next == '"' || next == '\\' || next == 'n' || next == 't';
    if (is_escape) {
      ++i;
      c = next == 'n' ? '\n' : next == 't' ? '\t' : next;
    }
    text += c;
  }
  return text;
}

}  // namespace

WordEnd end_of_word(std::string_view text, std::size_t begin) {
  WordEnd end;
  int depth = 0;
  std::size_t at = begin, quotes = 0, last_quote = 0;
  if (text.substr(at).starts_with('"')) {
    at = end_of_quoted(text, at);
    if (at == std::string_view::npos) {
      end.open_quote = begin;
      at = text.size();
    } else if (at < text.size() && !is_space(text[at]) && text[at] != ')') {
      end.behind_quote = at;
    }
  }
  while (at < text.size() && !is_space(text[at])) {
    char c = text[at];
    if (c == '\\') {
      if (at + 1 == text.size()) end.lone_backslash = at;
      at += at + 1 == text.size() ? 1 : 2;
    } else if (c == '[') {
      at = end_of_class(text, at);
    } else {
      if (c == ')' && depth == 0) break;
      if (c == '(' && depth++ == 0) end.open_paren = at;
      if (c == ')') --depth;
      if (c == ')' && at > begin && text[at - 1] == '(') end.has_empty_group = true;
      if (c == '"') {
        ++quotes;
        last_quote = at;
      }
      ++at;
    }
  }
  end.place = at;
  end.is_open_paren = depth > 0;
  bool is_cut = at < text.size() && is_space(text[at]);
  if (is_cut && quotes % 2 == 1 && text.find('"', at) != text.npos) end.torn_quote = last_quote;
  return end;
}

std::size_t end_of_parens(std::string_view text, std::size_t begin) {
  int depth = 0;
  for (std::size_t at = begin; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
      continue;
    }
    if (text[at] == '(') ++depth;
    if (text[at] == ')' && --depth == 0) return end_of_word(text, at + 1).place;
  }
  return std::string_view::npos;
}

Word read_word(std::string_view raw) {
  if (raw.starts_with('"')) return {.text = unquoted(raw), .is_literal = true};
  return {.text = std::string(raw)};
}

Word read_quoted_regex(std::string_view raw) {
  if (!raw.starts_with('"')) return read_word(raw);
  return {.text = std::string(raw.substr(1, raw.size() - 2))};
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else
      out += c;
  }
  return out + '"';
}

std::optional<std::string> literal_of(const Word& word) {
  if (word.is_literal) return word.text;
  std::string text;
  for (std::size_t i = 0; i < word.text.size(); ++i) {
    char c = word.text[i];
    if (c == '\\') {
      if (++i == word.text.size()) return std::nullopt;
      c = word.text[i];
      // A letter or digit after a backslash has a special meaning.
      if (c >= 0 && std::isalnum(static_cast<unsigned char>(c)) != 0) return std::nullopt;
      if (c < 0) return std::nullopt;
    } else if (std::string_view(".+*?()|[]{}^$").find(c) != std::string_view::npos) {
      return std::nullopt;
    }
    text += c;
  }
  return text;
}

namespace {

// {go,rs}: in a regular expression, unlike {2,3}, this would match itself literally.
bool has_choice(std::string_view text) {
  for (auto open = text.find('{'); open != text.npos; open = text.find('{', open + 1)) {
    auto inside = text.substr(open + 1, text.find('}', open) - open - 1);
    bool is_closed = text.find('}', open) != text.npos;
    if (is_closed && inside.contains(',') && inside.find_first_not_of("0123456789,") != inside.npos)
      return true;
  }
  return false;
}

bool is_glob(std::string_view text) {
  if (text.starts_with('*')) return true;
  if (text.find_first_of("\\()|^$") != text.npos || text.contains(".*")) return false;
  return text.contains("/*") || text.contains("**") || has_choice(text);
}

// Adds the class [!a-z] at `at` and returns its end, or `at` itself if it is not closed.
std::size_t add_class(std::string_view glob, std::size_t at, std::string& regex) {
  std::size_t end = at + 1;
  if (end < glob.size() && (glob[end] == '!' || glob[end] == '^')) ++end;
  end = glob.find(']', end + 1);
  if (end == glob.npos) return at;
  auto inside = glob.substr(at + 1, end - at - 1);
  bool is_negated = inside[0] == '!' || inside[0] == '^';
  regex += is_negated ? "[^/" : "[";
  for (char c : inside.substr(is_negated ? 1 : 0)) {
    if (c == '\\' || c == '[' || c == '^') regex += '\\';
    regex += c;
  }
  regex += ']';
  return end;
}

std::string regex_of_glob(std::string_view glob) {
  std::string regex;
  if (glob.starts_with('/')) {
    regex = "^";
    glob.remove_prefix(1);
  } else if (glob.starts_with("**/")) {
    regex = "(^|/)";
    glob.remove_prefix(3);
  } else if (!glob.starts_with('*')) {
    regex = "(^|/)";
  }
  int choices = has_choice(glob) ? 0 : -1;  // -1: braces are ordinary characters
  for (std::size_t i = 0; i < glob.size(); ++i) {
    char c = glob[i];
    auto rest = glob.substr(i);
    if (rest.starts_with("**/") && i > 0 && glob[i - 1] == '/') {
      regex += "(?:.*/)?";
      i += 2;
    } else if (rest.starts_with("**")) {
      regex += ".*";
      ++i;
    } else if (c == '*') {
      regex += "[^/]*";
    } else if (c == '?') {
      regex += "[^/]";
    } else if (auto end = c == '[' ? add_class(glob, i, regex) : i; end != i) {
      i = end;
    } else if (c == '{' && choices >= 0) {
      regex += "(?:";
      ++choices;
    } else if (c == '}' && choices > 0) {
      regex += ')';
      --choices;
    } else if (c == ',' && choices > 0) {
      regex += '|';
    } else {
      regex += RE2::QuoteMeta(std::string(1, c));
    }
  }
  return glob.ends_with('/') ? regex : regex + "$";
}

}  // namespace

Result<Word> as_glob(Word word) {
  if (word.is_literal || !is_glob(word.text)) return word;
  if (word.text.find_first_of("\\()|^$") != word.text.npos)
    return fail(Errc::invalid,
                "what begins with * is a glob, which has *, **, ?, [a-z] and {{a,b}}; a regular "
                "expression begins with .*");
  return Word{.text = regex_of_glob(word.text)};
}

std::string glob_in(const Word& word) {
  std::string_view text = word.text;
  bool has_star = text.contains('*');
  if (word.is_literal) return has_star ? regex_of_glob(text) : "";
  bool is_regex = text.find_first_of("\\()|^$+[{") != text.npos || text.contains(".*");
  return has_star && !is_regex ? regex_of_glob(text) : "";
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
