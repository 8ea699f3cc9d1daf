#pragma once
// The query language, compatible with zoekt's.
//
//   query  := and ("or" and)*            and := not+              not := ["-"] atom
//   atom   := "(" query ")" | field | "quoted" | word
//   field  := case: content: file: f: repo: r: lang: branch: b: sym: type: select: count:
//
// A word is a regular expression (RE2's syntax) that is looked for in contents and paths; without
// special characters it is a literal. case:auto (the default): lower-case patterns match any case.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren::search {

enum class Field : std::uint8_t { any, content, path, symbol };

struct Pattern {
  std::string text;  // a literal, or a regular expression
  bool is_regex = false;
  bool ignores_case = false;
  Field field = Field::any;
};

struct Query;
using QueryPtr = std::unique_ptr<Query>;
struct Query {
  enum class Kind : std::uint8_t { all, pattern, repo, language, branch, both, either, neither };
  Kind kind = Kind::all;
  Pattern pattern;              // of `pattern`; the regex of `repo`, the word of the other filters
  std::vector<QueryPtr> parts;  // of both, either; one of neither
};

enum class Select : std::uint8_t { lines, files, paths, repos, symbols };

struct ParsedQuery {
  QueryPtr root;
  Select select = Select::lines;  // of type: and select:
  std::optional<std::uint64_t> count;
};

// Errc::invalid, with the column (from 1) and what was expected there:
//   column 12: "(" is not closed
Result<ParsedQuery> parse_query(std::string_view text);
std::string to_string(const Query& query);  // for explain

}  // namespace warren::search
