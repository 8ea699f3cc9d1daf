#pragma once
// Words of a query: where one ends, and whether it is a literal.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "search/query/query.h"

namespace warren::search {

struct WordEnd {
  std::size_t place = 0;
  bool is_open_paren = false;  // ends inside of parentheses, the first of which is at open_paren
  std::size_t open_paren = 0;
  std::optional<std::size_t> open_quote, lone_backslash;
  std::optional<std::size_t> behind_quote;  // it begins as a quotation, and goes on behind that
  // A quote within it with a space before the next one: foo" bar".
  std::optional<std::size_t> torn_quote;
  bool has_empty_group = false;  // main()
};
// A word ends at a space, at the end, or at a ")" that it did not open. Parentheses in [classes] do
// not count. What begins with a quote is a quotation; any other quote is a character like others.
WordEnd end_of_word(std::string_view text, std::size_t begin);
// Where what begins there ends once its parentheses are closed, spaces or not; npos: they are not.
std::size_t end_of_parens(std::string_view text, std::size_t begin);

struct Word {
  std::string text;         // a regular expression, or, when it was quoted, what it says
  bool is_literal = false;  // it was quoted
};
Word read_word(std::string_view raw);
// What is between the quotes as a regular expression: its backslashes are that language's.
Word read_quoted_regex(std::string_view raw);
// In quotes, as read_word reads it back.
std::string quoted(std::string_view text);

// What the word matches if that is one string: foo\.bar is one, foo.bar is not.
std::optional<std::string> literal_of(const Word& word);
// What can only be meant as a glob becomes a regular expression: *.cc, src/*.go, **/x, *.{go,rs}.
//
//   *.cc   ->  [^/]*\.cc$        src/*.go  ->  (^|/)src/[^/]*\.go$      /src/*.go  ->  ^src/…
//
// Errc::invalid: it begins with * and has signs of regular expressions, so that it is neither.
Result<Word> as_glob(Word word);
// A regular expression that looks like a glob, foo*.go, as what that glob would be; empty: it does not.
std::string glob_in(const Word& word);
// \S is not in upper case.
bool has_upper_case(const Pattern& pattern);
std::optional<std::uint64_t> number_of(std::string_view text);

}  // namespace warren::search
