#pragma once
// For tests: random regular expressions, and texts that they sometimes match.
#include <random>
#include <string>
#include <string_view>

namespace warren::search {

class RandomRegex {
 public:
  explicit RandomRegex(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t bound) { return random_() % bound; }

  std::string regex(int depth = 3) {
    std::string text = sequence(depth);
    if (below(8) == 0) text = "^" + text;
    if (below(8) == 0) text += "$";
    return text;
  }

  std::string line(std::size_t most) {
    constexpr std::string_view letters = "aaabbcdABk_s09 \t.-\r\v";
    std::string text;
    for (std::size_t size = below(most + 1); text.size() < size;) {
      if (below(3) == 0)
        text += words[below(std::size(words))];
      else
        text += letters[below(letters.size())];
    }
    return text;
  }

 private:
  static constexpr std::string_view words[] = {"foo", "bar", "read_lock", "abc", "ABC",
                                               "aab", "0x",  "return",    "ask", "lock"};

  std::string sequence(int depth) {
    std::string text;
    for (auto count = 1 + below(4); count > 0; --count) text += repeated(depth);
    return text;
  }
  std::string repeated(int depth) {
    constexpr std::string_view marks[] = {"*",    "+",  "?",  "{2}",  "{1,3}",
                                          "{2,}", "*?", "+?", "{0,2}"};
    std::string text = atom(depth);
    if (below(4) != 0) return text;
    return "(?:" + text + ")" + std::string(marks[below(std::size(marks))]);
  }
  std::string atom(int depth) {
    constexpr std::string_view small[] = {
        "a",          "b",        "c",     "k",       "s",
        ".",          R"(\w)",    R"(\d)", R"(\s)",   R"(\S)",
        R"(\W)",      R"(\b)",    "[ab]",  "[^a]",    "[a-d]",
        "[0-9_]",     R"([^\s])", R"(\.)", R"(\x61)", "[[:alpha:]]",
        R"(\Qa.b\E)", "(?i:abc)", R"(\D)", R"(\B)",   "[^[:space:]]",
        "[A-Z]",      "_",        "0",     " ",       R"([\w-])"};
    if (depth > 0 && below(5) == 0) {
      std::string text = "(" + sequence(depth - 1);
      for (auto count = below(3); count > 0; --count) text += "|" + sequence(depth - 1);
      return text + ")";
    }
    if (below(3) == 0) return std::string(words[below(std::size(words))]);
    return std::string(small[below(std::size(small))]);
  }

  std::mt19937 random_;
};

}  // namespace warren::search
