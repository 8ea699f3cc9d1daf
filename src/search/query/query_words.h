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
};
// A word ends at a space, at the end, or at a ")" that it did not open. Parentheses in [classes]
// and in quotes do not count.
WordEnd end_of_word(std::string_view text, std::size_t begin);

struct Word {
  std::string text;         // a regular expression, or, when all of it was quoted, what it says
  bool is_literal = false;  // all of it was quoted
};
Word read_word(std::string_view raw);

// What the word matches if that is one string: foo\.bar is one, foo.bar is not.
std::optional<std::string> literal_of(const Word& word);
// *.cc is no regular expression; somebody who writes it means .*\.cc$.
Word as_glob(Word word);
// \S is not in upper case.
bool has_upper_case(const Pattern& pattern);
std::optional<std::uint64_t> number_of(std::string_view text);

}  // namespace warren::search
