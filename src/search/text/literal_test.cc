#include "search/text/literal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "search/query/rank.h"

namespace warren::search {
namespace {

char folded(char c, bool ignores_case) {
  return ignores_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

std::vector<Span> naive(std::string_view needle, bool ignores_case, std::string_view text) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i + needle.size() <= text.size();) {
    std::size_t j = 0;
    while (j < needle.size() &&
           folded(text[i + j], ignores_case) == folded(needle[j], ignores_case))
      ++j;
    if (j == needle.size()) {
      spans.push_back(
          {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i + needle.size())});
      i += needle.size();
    } else {
      ++i;
    }
  }
  return spans;
}

std::string random_text(std::mt19937& random, std::size_t size, std::string_view letters) {
  std::string text(size, ' ');
  for (char& c : text) c = letters[random() % letters.size()];
  return text;
}

TEST_CASE("a literal is found where a naive search finds it, in texts of every length") {
  std::mt19937 random(7);
  std::string every(256, '\0');
  for (std::size_t i = 0; i < 256; ++i) every[i] = static_cast<char>(i);
  const std::string_view alphabets[] = {"ab", "aAbB", "abc_ \n", "@`[{aAzZ", every};
  for (int round = 0; round < 20'000; ++round) {
    auto letters = alphabets[random() % std::size(alphabets)];
    // No spare capacity, so that a read beyond its end is detected.
    std::string text = random_text(random, random() % (round % 50 == 0 ? 5000 : 400), letters);
    text.shrink_to_fit();
    std::string needle = random_text(random, 1 + random() % (round % 3 == 0 ? 40 : 5), letters);
    if (random() % 2 == 0 && text.size() > 1) {
      std::size_t from = random() % (text.size() - 1);
      needle = text.substr(from, 1 + random() % std::min<std::size_t>(70, text.size() - from));
    }
    bool ignores_case = random() % 2 == 0;
    auto expected = naive(needle, ignores_case, text);
    Literal literal(needle, ignores_case);
    std::vector<Span> found;
    literal.find_all(text, found);
    REQUIRE(found == expected);
    bool has_word = false, expects_word = false;
    for (const auto& span : expected)
      expects_word = expects_word || is_whole_word(text, span.begin, span.end);
    REQUIRE(literal.count(text, has_word) == expected.size());
    REQUIRE(has_word == expects_word);
    REQUIRE(literal.find(text) == (expected.empty() ? std::string::npos : expected[0].begin));
  }
}

TEST_CASE("no more matches are taken than were asked for") {
  Literal literal("aa", false);
  std::vector<Span> found;
  literal.find_all("aaaaaaaa", found, 3);
  CHECK(found == std::vector<Span>{{0, 2}, {2, 4}, {4, 6}});
}

TEST_CASE("newlines and bytes are counted in texts of every length") {
  std::mt19937 random(8);
  for (std::size_t size = 0; size < 1000; ++size) {
    std::string text = random_text(random, size, "ab\n\n\xff");
    CHECK(count_newlines(text) == static_cast<std::uint64_t>(std::ranges::count(text, '\n')));
    std::uint64_t sum = 0;
    for (unsigned char c : text) sum += c;
    CHECK(sum_bytes(text) == sum);
  }
}

}  // namespace
}  // namespace warren::search
