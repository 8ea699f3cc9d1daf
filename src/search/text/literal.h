#pragma once
// Finds a string in text about as fast as memory can be read.
//
// The two bytes of the needle that are rarest in source code are compared with a whole vector of
// text at once. The whole needle is compared only where both match. The vector instruction set is
// chosen at run time.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warren::search {

// A match, in bytes of the text that was searched.
struct Span {
  std::uint32_t begin = 0, end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

struct Needle;  // as the vector code sees a literal

class Literal {
 public:
  // Ignoring case folds only ASCII letters. The needle must not be empty.
  Literal(std::string_view needle, bool ignores_case);

  // The first occurrence, or npos.
  std::size_t find(std::string_view text) const;
  // Appends matches that do not overlap, from left to right, at most `most` of them.
  void find_all(std::string_view text, std::vector<Span>& into, std::size_t most = SIZE_MAX) const;
  // How many matches find_all would append, without storing them. Sets `has_word` if one of them is
  // a whole word.
  std::uint64_t count(std::string_view text, bool& has_word) const;
  const std::string& needle() const { return needle_; }

 private:
  Needle view() const;

  std::string needle_;                    // lowercase if case is ignored
  std::string folds_;                     // for each byte, the bit that case changes, or 0
  std::uint32_t first_ = 0, second_ = 0;  // positions of the two rarest bytes, in this order
  bool can_overlap_ = false;              // its end equals its beginning
};

std::uint64_t count_newlines(std::string_view text);
// Reads every byte: the speed limit of memory, for comparison.
std::uint64_t sum_bytes(std::string_view text);

}  // namespace warren::search
