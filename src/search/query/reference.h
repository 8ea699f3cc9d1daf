#pragma once
// Answers that are obviously right, for tests: RE2 on every line of every file.
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "search/query/query.h"
#include "search/source/document.h"

namespace warren::search {

class Reference {
 public:
  explicit Reference(const std::vector<Document>& documents) : documents_(documents) {}

  // The paths of the matching files, with their matching lines.
  using Lines = std::map<std::string, std::set<std::uint32_t>>;
  Lines answer(const Query& query) {
    Lines lines;
    for (const auto& document : documents_) {
      std::set<std::uint32_t> mine;
      if (holds(query, document, &mine)) lines[document.path] = std::move(mine);
    }
    return lines;
  }

 private:
  bool holds(const Query& query, const Document& document, std::set<std::uint32_t>* lines) {
    switch (query.kind) {
      case Query::Kind::pattern:
        return pattern_holds(query.pattern, document, lines);
      case Query::Kind::both: {
        std::set<std::uint32_t> all;
        for (const auto& part : query.parts)
          if (!holds(*part, document, &all)) return false;
        if (lines != nullptr) lines->merge(all);
        return true;
      }
      case Query::Kind::either: {
        bool is_any = false;
        for (const auto& part : query.parts) is_any |= holds(*part, document, lines);
        return is_any;
      }
      case Query::Kind::neither:
        return !holds(*query.parts[0], document, nullptr);
      default:
        return true;
    }
  }

  bool pattern_holds(const Pattern& pattern, const Document& document,
                     std::set<std::uint32_t>* lines) {
    const RE2& regex = compiled(pattern);
    bool is_found = false;
    if (pattern.field != Field::content && RE2::PartialMatch(document.path, regex)) is_found = true;
    if (pattern.field == Field::path) return is_found;
    bool is_multi_line = pattern.text.find("\\n") != std::string::npos;
    auto found = is_multi_line ? across_lines(regex, document.text) : by_line(regex, document.text);
    is_found |= !found.empty();
    if (lines != nullptr) lines->merge(found);
    return is_found;
  }

  static std::set<std::uint32_t> by_line(const RE2& regex, std::string_view text) {
    std::set<std::uint32_t> lines;
    for (std::uint32_t number = 1; !text.empty(); ++number) {
      auto end = std::min(text.find('\n'), text.size());
      auto line = text.substr(0, end);
      if (RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), regex))
        lines.insert(number);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
  }

  static std::set<std::uint32_t> across_lines(const RE2& regex, std::string_view text) {
    std::set<std::uint32_t> lines;
    re2::StringPiece found;
    auto number_of = [&](std::size_t at) {
      return static_cast<std::uint32_t>(1 + std::ranges::count(text.substr(0, at), '\n'));
    };
    for (std::size_t at = 0; at < text.size();) {
      if (!regex.Match({text.data(), text.size()}, at, text.size(), RE2::UNANCHORED, &found, 1))
        break;
      auto begin = static_cast<std::size_t>(found.data() - text.data());
      at = begin + std::max<std::size_t>(found.size(), 1);
      for (auto line = number_of(begin); line <= number_of(at - 1); ++line) lines.insert(line);
    }
    return lines;
  }

  const RE2& compiled(const Pattern& pattern) {
    auto& regex = regexes_[pattern.text + (pattern.is_regex ? "r" : "l") +
                           (pattern.ignores_case ? "i" : "c")];
    if (!regex) {
      RE2::Options options;
      options.set_case_sensitive(!pattern.ignores_case);
      regex = std::make_unique<RE2>(
          "(?m)" + (pattern.is_regex ? pattern.text : RE2::QuoteMeta(pattern.text)), options);
    }
    return *regex;
  }

  const std::vector<Document>& documents_;
  std::map<std::string, std::unique_ptr<RE2>> regexes_;
};

}  // namespace warren::search
