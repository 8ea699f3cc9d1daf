#pragma once
// Words of a query: where a word ends, and whether it is a literal.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "search/query/query.h"

namespace warren::search {

struct WordEnd {
  std::size_t place = 0;
  bool is_open_paren = false;  // it ends inside parentheses, the first at open_paren
  std::size_t open_paren = 0;
  std::optional<std::size_t> open_quote, lone_backslash;
  std::optional<std::size_t> behind_quote;  // it begins with a quotation, and continues after it
  // A quote within it that is followed by a space before the next quote: foo" bar".
  std::optional<std::size_t> torn_quote;
  bool has_empty_group = false;  // main()
};
// A word ends at a space, at the end, or at a ")" that it did not open. Parentheses in [classes] do
// not count. A quote at the beginning starts a quotation; any other quote is an ordinary character.
WordEnd end_of_word(std::string_view text, std::size_t begin);
// Where the text ends once its parentheses are closed, including spaces. Returns npos if they are
// not.
std::size_t end_of_parens(std::string_view text, std::size_t begin);

struct Word {
  std::string text;         // a regular expression, or the contents of a quotation
  bool is_literal = false;  // it was quoted
};
Word read_word(std::string_view raw);
// Reads the text between the quotes as a regular expression: its backslashes belong to the regex.
Word read_quoted_regex(std::string_view raw);
// Quotes the text so that read_word reads it back.
std::string quoted(std::string_view text);

// The string that the word matches, if it matches just one: foo\.bar does, foo.bar does not.
std::optional<std::string> literal_of(const Word& word);
// Turns a word that can only be meant as a glob into a regular expression: *.cc, src/*.go, **/x,
// *.{go,rs}.
//
//   *.cc   ->  [^/]*\.cc$        src/*.go  ->  (^|/)src/[^/]*\.go$      /src/*.go  ->  ^src/…
//
// Errc::invalid: it begins with * and has regular-expression characters, so it is neither.
Result<Word> as_glob(Word word);
// If a regular expression looks like a glob, such as foo*.go, returns what the glob would mean.
// Otherwise returns "".
std::string glob_in(const Word& word);
// \S does not count as uppercase.
bool has_upper_case(const Pattern& pattern);
std::optional<std::uint64_t> number_of(std::string_view text);

}  // namespace warren::search
