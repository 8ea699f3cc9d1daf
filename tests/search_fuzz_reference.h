#pragma once
// What the answer must be: RE2 on every line of every text, or on the whole of it for a pattern
// that says so; a literal by the slowest loop there is.
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "search/query/query.h"
#include "search/query/search.h"
#include "search/query/watch.h"
#include "search/source/document.h"

namespace warren::search {

struct Meaning {
  std::unique_ptr<RE2> regex;  // nothing: a literal
  std::string literal;
  bool folds = false, is_multi_line = false;
  Watch* watch = nullptr;  // nothing: it may take its time

  // The first match from `at` on; false: none, or the watch is over.
  bool find(std::string_view text, std::size_t at, std::size_t& begin, std::size_t& end) const {
    if (watch != nullptr && watch->is_over()) return false;
    if (regex) {
      re2::StringPiece found;
      if (!regex->Match({text.data(), text.size()}, at, text.size(), RE2::UNANCHORED, &found, 1))
        return false;
      begin = static_cast<std::size_t>(found.data() - text.data());
      end = begin + found.size();
      return true;
    }
    auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    auto place = std::search(
        text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), literal.begin(), literal.end(),
        [&](char a, char b) { return a == b || (folds && lower(a) == lower(b)); });
    if (place == text.end()) return false;
    begin = static_cast<std::size_t>(place - text.begin());
    end = begin + literal.size();
    return true;
  }
};

// Lines, and what of them is marked (not for patterns across lines).
using Marks = std::map<std::uint32_t, std::vector<std::pair<std::size_t, std::size_t>>>;

inline Marks marks_by_line(const Meaning& meaning, std::string_view text) {
  Marks marks;
  for (std::uint32_t number = 1; !text.empty(); ++number) {
    auto size = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, size);
    std::size_t shown = line.ends_with('\r') ? size - 1 : size, begin = 0, end = 0;
    for (std::size_t at = 0; at <= size && meaning.find(line, at, begin, end); at = end) {
      auto& mine = marks[number];
      if (begin == end) break;  // the whole line is the match
      if (begin < shown) mine.emplace_back(begin, std::min(end, shown));
    }
    text.remove_prefix(std::min(size + 1, text.size()));
  }
  return marks;
}

inline Marks marks_across_lines(const Meaning& meaning, std::string_view text) {
  Marks marks;
  std::size_t begin = 0, end = 0, counted = 0;
  std::uint32_t line = 1;
  for (std::size_t at = 0; at < text.size() && meaning.find(text, at, begin, end);) {
    if (begin == text.size() && text.back() == '\n') break;  // behind the last line
    line += static_cast<std::uint32_t>(
        std::count(text.begin() + static_cast<std::ptrdiff_t>(counted),
                   text.begin() + static_cast<std::ptrdiff_t>(begin), '\n'));
    counted = begin;
    at = std::max(end, begin + 1);
    marks[line];
    auto last = line;
    for (std::size_t i = begin; i + 1 < end; ++i)
      if (text[i] == '\n') marks[++last];
  }
  return marks;
}

class FuzzReference {
 public:
  using Lines = std::map<std::string, std::set<std::uint32_t>>;
  FuzzReference(const std::vector<Document>& documents,
                const std::map<const Query*, Meaning>& meanings)
      : documents_(documents), meanings_(meanings) {}

  Lines answer(const Query& query) const {
    Lines lines;
    for (const auto& document : documents_) {
      std::set<std::uint32_t> mine;
      if (holds(query, document, mine)) lines[document.path] = std::move(mine);
    }
    return lines;
  }

 private:
  bool holds(const Query& query, const Document& document, std::set<std::uint32_t>& lines) const {
    std::set<std::uint32_t> all;
    bool result = false;
    switch (query.kind) {
      case Query::Kind::pattern:
        return pattern_holds(query, document, lines);
      case Query::Kind::both:
        for (const auto& part : query.parts)
          if (!holds(*part, document, all)) return false;
        lines.merge(all);
        return true;
      case Query::Kind::either:
        for (const auto& part : query.parts) result |= holds(*part, document, lines);
        return result;
      case Query::Kind::neither:
        return !holds(*query.parts[0], document, all);
      default:
        return true;
    }
  }

  bool pattern_holds(const Query& query, const Document& document,
                     std::set<std::uint32_t>& lines) const {
    const auto& meaning = meanings_.at(&query);
    auto look = [&](std::string_view text) {
      return meaning.is_multi_line ? marks_across_lines(meaning, text)
                                   : marks_by_line(meaning, text);
    };
    bool is_found = query.pattern.field != Field::content && !look(document.path).empty();
    if (query.pattern.field == Field::path) return is_found;
    auto marks = look(document.text);
    for (const auto& [line, mine] : marks) lines.insert(line);
    return is_found || !marks.empty();
  }

  const std::vector<Document>& documents_;
  const std::map<const Query*, Meaning>& meanings_;
};

}  // namespace warren::search
