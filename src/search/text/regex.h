#pragma once
// Regular expressions taken apart, for two purposes: to know which strings a match must have (see
// formula.h), and to say the same to two libraries in words that mean the same to both.
//
// RE2 and Hyperscan disagree about \s, about case beyond ASCII, and about what a class matches that
// says nothing of line ends. So both get classes spelled out byte by byte: letters of ASCII fold
// to letters of ASCII alone, and a line's end is in no class unless the pattern is multi-line.
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warren::search {

struct RegexNode {
  enum class Kind : std::uint8_t {
    empty,
    chars,
    bytes,
    opaque,
    begin_line,
    end_line,
    begin_text,
    end_text,
    boundary,
    not_boundary,
    sequence,
    choice,
    repeat
  };
  Kind kind = Kind::empty;
  std::bitset<128> ascii;    // of chars
  bool has_others = false;   // of chars: everything beyond ASCII as well
  std::string text = {};     // of bytes: a character beyond ASCII; of opaque: RE2 understands it
  int least = 0, most = -1;  // of repeat; -1: any number
  bool is_greedy = true;     // of repeat
  std::vector<RegexNode> parts = {};
};

struct Regex {
  RegexNode root;
  bool is_multi_line = false;  // may match a line's end, since it says so
};

// Nothing: RE2 may understand it, this does not.
std::optional<Regex> parse_regex(std::string_view pattern, bool ignores_case);
// What is said to RE2 (in UTF-8, without flags).
std::string for_re2(const Regex& regex);
// What is said to Hyperscan (bytes, multi-line anchors, no other flags); nothing: not for it, being
// too large, or a kind of pattern that it matches differently.
struct HyperscanPattern {
  std::string text;
  bool is_for_ascii = false;  // right only in texts of pure ASCII
};
std::optional<HyperscanPattern> for_hyperscan(const Regex& regex);
// It matches the empty string, wherever that is: every line has a match.
bool matches_everything(const RegexNode& node);

}  // namespace warren::search
