#pragma once
// Parses regular expressions, for two purposes: to know which strings a match must contain (see
// formula.h), and to express the same pattern for two libraries so that both agree on its meaning.
//
// RE2 and Hyperscan disagree about \s, about case beyond ASCII, and about classes that do not
// mention line ends. So both get classes spelled out byte by byte: ASCII letters fold only to ASCII
// letters, and no class contains a line end unless the pattern is multi-line.
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
  std::bitset<128> ascii;    // for chars
  bool has_others = false;   // for chars: also everything beyond ASCII
  std::string text = {};     // for bytes: a non-ASCII character; for opaque: RE2 understands it
  int least = 0, most = -1;  // for repeat; -1 for any number
  bool is_greedy = true;     // for repeat
  std::vector<RegexNode> parts = {};
};

struct Regex {
  RegexNode root;
  bool is_multi_line = false;  // it may match a line end, because it says so
};

// Returns nullopt if our parser does not understand it, although RE2 may.
std::optional<Regex> parse_regex(std::string_view pattern, bool ignores_case);
// The pattern for RE2 (in UTF-8, without flags).
std::string for_re2(const Regex& regex);
// The pattern for Hyperscan (bytes, multi-line anchors, no other flags). Returns nullopt if it is
// too large, or of a kind that Hyperscan matches differently.
struct HyperscanPattern {
  std::string text;
  bool is_for_ascii = false;  // correct only in pure ASCII text
};
std::optional<HyperscanPattern> for_hyperscan(const Regex& regex);
// It matches the empty string anywhere, so every line has a match.
bool matches_everything(const RegexNode& node);

}  // namespace warren::search
