#pragma once
// The query language, compatible with zoekt's.
//
//   query  := and ("or" and)*            and := not+              not := ["-"] atom
//   atom   := "(" query ")" | field | "quoted" | word
//   field  := case: content: c: file: f: repo: r: lang: l: branch: b: sym: type: t: select: count:
//             regex: archived: fork: public:
//
// A word is a regular expression (RE2 syntax) that is searched for in contents and paths. Without
// special characters it is a literal. Text that begins with a quote is taken literally up to the
// next quote, including spaces and special characters, and also in a field: file:"a b.c". Inside
// quotes \" \\ \n \t are escapes; any other backslash stands for itself. A quote within a word is
// an ordinary character: panic\("[a-z]+"\). Only regex:"a .*b" has a regular expression in quotes.
// "(" begins a group if a space, a quote or a field follows before it is closed. Otherwise it
// belongs to a regular expression: (read|write)_lock. Paths and repositories may be globs:
// file:src/*.{cc,h}.
//
// case:auto (the default): lowercase patterns match any case. In literals only ASCII letters have a
// case. case:, type:, select: and count: apply to the whole query, wherever they are written. So do
// archived:, fork: and public: (yes or no), which limit the repositories; the part of the program
// that knows these properties applies them. They are rejected inside parentheses and beside an
// "or".
//
// A pattern is matched line by line: ^ and $ match the ends of a line, and neither . nor \s nor
// [^x] matches a line end. Only a pattern that contains \n, (?s) or [\s\S] can match across lines.
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
  Pattern pattern;              // for `pattern`; for `repo` the regex; for other filters the word
  std::vector<QueryPtr> parts;  // for both, either; one for neither
};

// lines: files with their lines; files: without lines; paths: words match only paths; repos: one
// entry per repository; symbols: words match the names of definitions.
enum class Select : std::uint8_t { lines, files, paths, repos, symbols };

// What kind of repositories are wanted.
struct RepoKinds {
  std::optional<bool> is_archived = {}, is_fork = {}, is_private = {};
  bool is_any() const { return is_archived || is_fork || is_private; }
};

struct ParsedQuery {
  QueryPtr root;
  Select select = Select::lines;       // from type: and select:
  std::optional<std::uint64_t> count;  // wanted matches; 0 (count:all) for all
  std::string below = {};              // "src/cli/": only paths with this prefix
  RepoKinds kinds = {};                // from archived:, fork: and public:
  // For the author of the query: parts that are hardly meant as written, and other possible
  // meanings, worth a mention if nothing was found.
  std::vector<std::string> notes = {}, guesses = {};
};

inline constexpr std::size_t most_query_bytes = 4096;

// Errc::invalid, with the column (in bytes, from 1) and what was expected there:
//     column 12: "(" is not closed; as it stands: "foo("
Result<ParsedQuery> parse_query(std::string_view text);
// Parsing compiles patterns to validate them. That takes microseconds, but tenths of a second for
// patterns with repetitions or Unicode classes: \pL{90}. Returns false if the query may contain one
// of these; a server with other clients then parses it on a separate thread.
bool parses_quickly(std::string_view text);
std::string to_string(const Query& query);  // for explain

}  // namespace warren::search
