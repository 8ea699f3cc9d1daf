#pragma once
// The query language, compatible with zoekt's.
//
//   query  := and ("or" and)*            and := not+              not := ["-"] atom
//   atom   := "(" query ")" | field | "quoted" | word
//   field  := case: content: c: file: f: repo: r: lang: l: branch: b: sym: type: t: select: count:
//             regex: archived: fork: public:
//
// A word is a regular expression (RE2's syntax) that is looked for in contents and paths; without
// special characters it is a literal. What begins with a quote is taken as it stands up to the next
// one, spaces and special characters too, in a field as well: file:"a b.c"; inside of quotes \" \\ \n
// \t are known, any other backslash is one. A quote within a word is a character like others:
// panic\("[a-z]+"\). regex:"a .*b" alone has a regular expression in quotes. "(" begins a group when a
// space, a quote or a field follows before it is closed; otherwise it belongs to a regular
// expression: (read|write)_lock. Paths and repositories may be globs: file:src/*.{cc,h}.
//
// case:auto (the default): lower-case patterns match any case; only letters of ASCII have a case in
// literals. case:, type:, select: and count: hold for the whole query, wherever they stand. So do
// archived:, fork: and public: (yes or no), which limit the repositories: whoever knows what they are
// heeds them. They are refused in parentheses and beside an "or".
//
// A pattern is looked for line by line, ^ and $ are the ends of a line, and neither . nor \s nor
// [^x] matches a line's end. Only a pattern that says \n, (?s) or [\s\S] is looked for across
// lines.
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

// lines: files with their lines; files: without; paths: words are looked for in paths alone; repos:
// one entry for each; symbols: words are looked for in names that are defined.
enum class Select : std::uint8_t { lines, files, paths, repos, symbols };

// What repositories have to be.
struct RepoKinds {
  std::optional<bool> is_archived = {}, is_fork = {}, is_private = {};
  bool is_any() const { return is_archived || is_fork || is_private; }
};

struct ParsedQuery {
  QueryPtr root;
  Select select = Select::lines;       // of type: and select:
  std::optional<std::uint64_t> count;  // matches looked for; 0 (count:all): all of them
  std::string below = {};              // "src/cli/": paths that begin so, and no others
  RepoKinds kinds = {};                // of archived:, fork: and public:
  // For the person who wrote it: what it hardly means as it stands; and what else it may have meant,
  // worth a word when nothing was found.
  std::vector<std::string> notes = {}, guesses = {};
};

inline constexpr std::size_t most_query_bytes = 4096;

// Errc::invalid, with the column (in bytes, from 1) and what was expected there:
//   column 12: "(" is not closed; as it stands: "foo("
Result<ParsedQuery> parse_query(std::string_view text);
// Patterns are compiled to see that they can be, which takes microseconds, but tenths of a second for
// those with repetitions or classes of Unicode: \pL{90}. False: it may be one of these, and whoever
// has other clients parses it on a thread of its own.
bool parses_quickly(std::string_view text);
std::string to_string(const Query& query);  // for explain

}  // namespace warren::search
