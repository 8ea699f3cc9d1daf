#pragma once
// Texts for the fuzzer: made up, or real ones with something odd put in here and there.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "search/source/document.h"

namespace warren::search {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t bound) { return random_() % bound; }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <class T>
  const auto& of(const T& list) {
    return list[below(std::size(list))];
  }

 private:
  std::mt19937_64 random_;
};

inline constexpr std::string_view plain_words[] = {
    "foo", "bar", "read_lock", "abc", "ABC", "aab", "0x", "return", "ask", "lock", "Kiss", "K"};
// Characters of every length, some that fold across ASCII, and what is no character at all.
inline constexpr std::string_view odd_words[] = {
    "é",      "É",        "ß",      "ẞ",    "\u212a",       "ſ",      "İ",       "ı",
    "Ω",      "ω",        "\u2126", "日本", "Привет",       "ПРИВЕТ", "e\u0301", "👍",
    "\ufeff", "\xff\xfe", "\xc3",   "\x80", "\xed\xa0\x80", "\xf5",   "\u0085",  "\u2028"};

inline std::string random_line(Dice& dice, std::size_t most, std::size_t oddness) {
  constexpr std::string_view letters = "aaabbcdABk_s09 \t.-\r\v(){}\"K";
  std::string text;
  for (std::size_t size = dice.below(most + 1); text.size() < size;) {
    if (oddness > 0 && dice.one_in(oddness))
      text += dice.of(odd_words);
    else if (dice.one_in(3))
      text += dice.of(plain_words);
    else
      text += dice.of(letters);
  }
  return text;
}

inline std::string random_text(Dice& dice) {
  auto kind = dice.below(14);
  std::size_t oddness = kind == 2 ? 4 : kind == 3 ? 200 : 0;
  std::string text;
  if (kind == 0) return text;
  if (kind == 13) return std::string(dice.below(5000), '\n');
  for (auto lines = dice.below(250); lines > 0; --lines) {
    text += random_line(dice, kind == 1 ? 400 : kind == 7 ? 3 : 40, oddness);
    if (kind == 4 && dice.one_in(20)) text += '\0';
    if (kind == 5 && dice.one_in(60)) text.append(100'000, 'x').append("foo");
    text += kind == 6 ? "\r\n" : kind == 8 && dice.one_in(2) ? "\r" : "\n";
  }
  if (dice.one_in(4) && !text.empty()) text.pop_back();
  return text;
}

inline std::vector<std::string> read_texts(const std::filesystem::path& folder, std::size_t most) {
  std::vector<std::string> texts;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.file_size() < 200'000) paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::size_t bytes = 0, step = std::max<std::size_t>(1, paths.size() / 2000);
  for (std::size_t i = 0; i < paths.size() && bytes < most; i += step) {
    std::ifstream file(paths[i], std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    bytes += texts.back().size();
  }
  return texts;
}

inline std::vector<Document> random_documents(Dice& dice, const std::vector<std::string>& real,
                                              std::size_t bytes) {
  std::vector<Document> documents;
  bool is_real = !real.empty() && dice.one_in(2);
  std::size_t size = 0;
  for (int i = 0; size < bytes; ++i) {
    Document document;
    document.path = "src/" + random_line(dice, 6, 12) + "_" + std::to_string(i) +
                    (i % 3 == 0   ? "/foo"
                     : i % 7 == 0 ? "/a\nb.c"
                                  : "/lock.c");
    std::erase(document.path, '\0');
    if (is_real) {
      document.text = dice.of(real);
      for (auto times = dice.one_in(3) ? dice.below(4) : 0; times > 0 && !document.text.empty();
           --times)
        document.text.insert(dice.below(document.text.size()), dice.of(odd_words));
    } else {
      document.text = random_text(dice);
    }
    size += document.text.size();
    documents.push_back(std::move(document));
  }
  return documents;
}

}  // namespace warren::search
