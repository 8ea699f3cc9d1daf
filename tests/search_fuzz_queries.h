#pragma once
// Random patterns, each in two spellings: as a user writes it, and what it means in RE2's words
// without any flag. The second is what the engine is compared with, so that its own reading of a
// pattern is under test as well.
//
//   any case, k[^a]é   means   [kK][^aA](?i:é)   letters of ASCII fold to each other alone
#include <re2/re2.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "search/query/query.h"
#include "search_fuzz_texts.h"

namespace warren::search {

struct Twin {
  std::string text, meaning;
  Twin& operator+=(const Twin& other) {
    text += other.text;
    meaning += other.meaning;
    return *this;
  }
};

class RandomTwin {
 public:
  // Pieces of these texts are looked for, so that there is something to find.
  RandomTwin(Dice& dice, const std::vector<Document>& documents)
      : dice_(dice), documents_(documents) {}

  // A regular expression; `is_multi_line`: it says so at least once.
  Twin regex(bool folds, bool is_multi_line) {
    folds_ = folds;
    is_multi_line_ = is_multi_line;
    Twin all;
    if (dice_.one_in(8)) all += dice_.one_in(6) ? Twin{"\\A", "\\A"} : Twin{"^", "^"};
    all += sequence(3);
    if (is_multi_line) {
      all += newline();
      all += sequence(2);
    }
    if (dice_.one_in(8)) all += dice_.one_in(6) ? Twin{"\\z", "\\z"} : Twin{"$", "$"};
    return all;
  }

  // A piece of a text, whatever its bytes.
  std::string sample(std::size_t most) {
    const auto& text = dice_.of(documents_).text;
    if (text.empty()) return "foo";
    auto piece = text.substr(dice_.below(text.size()), 1 + dice_.below(most));
    return dice_.one_in(20) ? piece : piece.substr(0, std::max<std::size_t>(1, piece.find('\n')));
  }

  // What a literal means in any case; nothing: it is plain, or not UTF-8 and compared as bytes.
  std::optional<std::string> folded_literal(std::string_view text) {
    bool is_ascii = std::ranges::all_of(text, [](char c) { return c >= 0; });
    RE2::Options options;
    options.set_log_errors(false);
    if (is_ascii || !RE2(RE2::QuoteMeta(std::string(text)), options).ok()) return std::nullopt;
    folds_ = true;
    return word(text).meaning;
  }

 private:
  // One character as it stands.
  Twin character(std::string_view c) const {
    if (c.size() > 1)
      return {std::string(c), folds_ ? "(?i:" + std::string(c) + ")" : std::string(c)};
    std::string quoted = RE2::QuoteMeta(std::string(c));
    if (!folds_ || std::isalpha(static_cast<unsigned char>(c[0])) == 0) return {quoted, quoted};
    auto other = static_cast<char>(c[0] ^ 32);
    // Without {1} RE2 joins [kK] with other choices to what the Kelvin sign is as well.
    return {quoted, std::string("[") + c[0] + other + "]{1}"};
  }
  Twin word(std::string_view text) const {
    Twin all;
    for (std::size_t i = 0; i < text.size();) {
      auto first = static_cast<unsigned char>(text[i]);
      std::size_t size = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
      all += character(text.substr(i, size));
      i += size;
    }
    return all;
  }

  Twin sequence(int depth) {
    Twin all;
    for (auto count = 1 + dice_.below(4); count > 0; --count) all += repeated(depth);
    return all;
  }

  Twin repeated(int depth) {
    constexpr std::string_view marks[] = {"*",    "+",  "?",  "{2}",   "{1,3}",
                                          "{2,}", "*?", "+?", "{0,2}", "??"};
    Twin one = atom(depth);
    if (dice_.below(4) != 0) return one;
    std::string mark(dice_.of(marks));
    return {"(?:" + one.text + ")" + mark, "(?:" + one.meaning + ")" + mark};
  }

  Twin group(int depth) {
    constexpr std::string_view begins[] = {"(", "(", "(?:", "(?P<name_>", "(?i:", "(?-i:"};
    auto kind = dice_.below(std::size(begins));
    bool before = folds_;
    if (kind >= 4) folds_ = kind == 4;
    Twin all = sequence(depth - 1);
    for (auto count = dice_.below(3); count > 0; --count) {
      Twin other = dice_.one_in(12) ? Twin{} : sequence(depth - 1);
      all += Twin{"|" + other.text, "|" + other.meaning};
    }
    folds_ = before;
    std::string begin(begins[kind]);
    if (kind == 3) begin.insert(begin.size() - 1, std::to_string(names_++));
    return {begin + all.text + ")", "(?:" + all.meaning + ")"};
  }

  Twin newline() {
    switch (dice_.below(4)) {
      case 0:
        return {"(?s:.)", "(?s:.)"};
      case 1:
        return {"[\\s\\S]", "[\\s\\S]"};
      default:
        return {"\\n", "\\n"};
    }
  }

  // Classes; what they mean in any case when that is something else.
  Twin char_class() {
    struct Class {
      std::string_view text, folded;
    };
    constexpr Class classes[] = {
        {".", ""},
        {R"(\w)", ""},
        {R"(\d)", ""},
        {R"(\s)", ""},
        {R"(\S)", ""},
        {R"(\W)", ""},
        {R"(\D)", ""},
        {R"(\b)", ""},
        {R"(\B)", ""},
        {"[ab]", "[abAB]"},
        {"[^a]", "[^aA]"},
        {"[a-d]", "[a-dA-D]"},
        {"[0-9_]", ""},
        {R"([^\s])", ""},
        {R"([\w-])", ""},
        {"[[:alpha:]]", ""},
        {"[^[:space:]]", ""},
        {"[A-Z]", "[A-Za-z]"},
        {R"(\x61)", "[aA]"},
        {R"(\x{6b})", "(?:[kK]{1})"},
        {"[[:upper:]]", "[A-Za-z]"},
        {"[^K]", "[^kK]"},
        {"[]a]", "[]aA]"},
        {R"([\]x])", R"([\]xX])"},
        {R"(\t)", ""},
        {"[^\\x00-\\x7f]", ""},
        {"[[:^digit:]]", ""},
        {"[!-~]", ""},
    };
    const auto& one = dice_.of(classes);
    return {std::string(one.text),
            std::string(folds_ && !one.folded.empty() ? one.folded : one.text)};
  }

  // What only RE2 understands follows RE2 in any case.
  Twin beyond_ascii() {
    constexpr std::string_view parts[] = {R"(\pL)", R"(\p{Greek})",
                                          R"(\PN)", "[é-ü]",
                                          "[^é]",   R"(\x{e9})",
                                          "[äöüß]", R"(\p{^Lu})",
                                          "[a-zß]", R"([\p{Cyrillic}_])",
                                          "日",     "é",
                                          "Ω",      "ſ",
                                          "İ",      "👍"};
    std::string text(dice_.of(parts));
    return {text, folds_ ? "(?i:" + text + ")" : text};
  }

  Twin atom(int depth) {
    if (depth > 0 && dice_.below(5) == 0) return group(depth);
    if (is_multi_line_ && dice_.one_in(12)) return newline();
    switch (dice_.below(8)) {
      case 0:
      case 1:
        return word(dice_.of(plain_words));
      case 2:
      case 3: {
        std::string piece = sample(8);
        bool is_plain = std::ranges::all_of(piece, [](char c) { return c >= ' ' && c < 0x7f; });
        return word(is_plain ? std::string_view(piece) : "lock");
      }
      case 4:
        return dice_.one_in(4) ? beyond_ascii() : char_class();
      default:
        return dice_.one_in(2) ? char_class() : word(std::string(1, "abcks_0 AK"[dice_.below(10)]));
    }
  }

  Dice& dice_;
  const std::vector<Document>& documents_;
  bool folds_ = false, is_multi_line_ = false;
  int names_ = 0;
};

}  // namespace warren::search
