#pragma once
// Finds a string in text about as fast as memory can be read.
//
// Of the needle's bytes the two that are rarest in source code are compared with a whole vector of
// text at once; only where both fit is the needle compared. Which vectors there are is asked at run
// time.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warren::search {

// A match: bytes of the text that was looked at.
struct Span {
  std::uint32_t begin = 0, end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

struct Needle;  // as the vector code sees a literal

class Literal {
 public:
  // Ignoring case folds the letters of ASCII and nothing else. The needle is not empty.
  Literal(std::string_view needle, bool ignores_case);

  // Where it is first; npos: nowhere.
  std::size_t find(std::string_view text) const;
  // Appends matches that do not overlap, from left to right, at most `most` of them.
  void find_all(std::string_view text, std::vector<Span>& into, std::size_t most = SIZE_MAX) const;
  // How many find_all would append, without making them; `has_word` is set when one of them is a
  // whole word.
  std::uint64_t count(std::string_view text, bool& has_word) const;
  const std::string& needle() const { return needle_; }

 private:
  Needle view() const;

  std::string needle_;  // in lower case when case does not matter
  std::string folds_;   // for each of its bytes the bit that case changes, or none
  std::uint32_t first_ = 0, second_ = 0;  // places of the two rarest bytes, in this order
  bool can_overlap_ = false;              // it ends as it begins
};

std::uint64_t count_newlines(std::string_view text);
// Reads every byte: what memory can do at most, to compare with.
std::uint64_t sum_bytes(std::string_view text);

}  // namespace warren::search
