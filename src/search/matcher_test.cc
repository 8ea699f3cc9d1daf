#include "search/matcher.h"

#include <doctest/doctest.h>
#include <re2/re2.h>

#include <algorithm>
#include <set>

#include "search/random_regex.h"
#include "search/rounds.h"

namespace warren::search {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    auto end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::set<std::size_t> lines_found(std::string_view text, const std::vector<Span>& spans) {
  std::set<std::size_t> lines;
  for (const auto& span : spans)
    lines.insert(static_cast<std::size_t>(std::ranges::count(text.substr(0, span.begin), '\n')));
  return lines;
}

std::set<std::size_t> lines_expected(const Pattern& pattern, std::string_view text) {
  RE2::Options options;
  options.set_case_sensitive(!pattern.ignores_case);
  RE2 regex("(?m)" + (pattern.is_regex ? pattern.text : RE2::QuoteMeta(pattern.text)), options);
  std::set<std::size_t> expected;
  auto lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (RE2::PartialMatch(re2::StringPiece(lines[i].data(), lines[i].size()), regex))
      expected.insert(i);
  return expected;
}

void check(Finder& finder, const Pattern& pattern, std::string_view text) {
  CAPTURE(text);
  bool is_ascii =
      std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 128; });
  std::vector<Span> spans;
  finder.find_all(text, is_ascii, spans);
  REQUIRE(lines_found(text, spans) == lines_expected(pattern, text));
  for (std::size_t i = 1; i < spans.size(); ++i) REQUIRE(spans[i - 1].end <= spans[i].begin);
  REQUIRE(finder.finds(text, is_ascii) == !spans.empty());
}

TEST_CASE("lines are found as RE2 finds them one by one, with Hyperscan and without") {
  RandomRegex random(21);
  int with_hyperscan = 0;
  for (int round = 0; round < rounds(3000); ++round) {
    Pattern pattern{
        .text = random.regex(2), .is_regex = true, .ignores_case = random.below(2) == 0};
    CAPTURE(pattern.text);
    CAPTURE(pattern.ignores_case);
    auto matcher = Matcher::compile(pattern);
    REQUIRE(matcher);
    if ((*matcher)->is_multi_line()) continue;
    bool is_large = random.below(3) == 0;
    if (is_large) (*matcher)->expect(1 << 30);
    with_hyperscan += is_large;
    Finder finder(*matcher);
    for (int i = 0; i < 6; ++i) {
      std::string text;
      for (auto count = random.below(12); count > 0; --count) {
        text += random.line(20);
        // Beyond ASCII, valid and not, where "." and "[^a]" take characters, not bytes.
        if (random.below(10) == 0) text += random.below(2) == 0 ? "\xc3\xa9" : "\xff";
        if (count > 1 || random.below(2) == 0) text += "\n";
      }
      check(finder, pattern, text);
    }
  }
  CHECK(with_hyperscan > rounds(500));
}

TEST_CASE("patterns across lines are found in whole files") {
  for (bool is_large : {false, true}) {
    Pattern pattern{.text = R"({\n\s*return 0;\n})", .is_regex = true};
    auto matcher = Matcher::compile(pattern);
    REQUIRE(matcher);
    CHECK((*matcher)->is_multi_line());
    if (is_large) (*matcher)->expect(1 << 30);
    Finder finder(*matcher);
    std::vector<Span> spans;
    finder.find_all("int f() {\n  return 0;\n}\nint g() {\n\treturn 0;\n}", true, spans);
    CHECK(spans == std::vector<Span>{{8, 23}, {32, 46}});
    CHECK(!finder.finds("int f() {\n return 1;\n}\n", true));
  }
}

TEST_CASE("beyond ASCII, any case is RE2's, for literals too") {
  auto matcher = Matcher::compile({.text = "ÄRGER", .ignores_case = true});
  REQUIRE(matcher);
  Finder finder(*matcher);
  CHECK(finder.finds("viel ärger\n", false));
  CHECK(!finder.finds("viel arger\n", true));
  auto ascii = Matcher::compile({.text = "mask", .ignores_case = true});
  // The Kelvin sign folds to k in Unicode; letters of ASCII fold to letters of ASCII alone.
  CHECK(!Finder(*ascii).finds("mas\xe2\x84\xaa\n", false));
  auto regex = Matcher::compile({.text = "ma[s]k", .is_regex = true, .ignores_case = true});
  CHECK(!Finder(*regex).finds("mas\xe2\x84\xaa\n", false));
  CHECK(Finder(*regex).finds("MASK\n", true));
}

TEST_CASE("a matcher is compiled once and the oldest goes first") {
  MatcherCache cache(2);
  auto a = cache.get({.text = "a+", .is_regex = true});
  auto b = cache.get({.text = "b+", .is_regex = true});
  CHECK(cache.get({.text = "a+", .is_regex = true})->get() == a->get());
  auto c = cache.get({.text = "a+", .is_regex = true, .ignores_case = true});
  CHECK(c->get() != a->get());
  CHECK(cache.get({.text = "a+", .is_regex = true})->get() == a->get());
  CHECK(cache.get({.text = "b+", .is_regex = true})->get() != b->get());
  CHECK(!cache.get({.text = "a(", .is_regex = true}));
}

// Matches as "begin-end", of a regular expression or a literal in any case.
std::string spans_of(std::string text, bool is_regex, std::string_view in) {
  auto matcher =
      Matcher::compile({.text = std::move(text), .is_regex = is_regex, .ignores_case = true});
  REQUIRE_MESSAGE(matcher, (matcher ? "" : matcher.error().what));
  std::vector<Span> spans;
  Finder(*matcher).find_all(in, false, spans);
  std::string all;
  for (const auto& span : spans) all += fmt::format("{}-{} ", span.begin, span.end);
  return all;
}

TEST_CASE("letters of ASCII equal letters of ASCII alone, in whatever company") {
  std::string_view text = "k K \u212a \u017f s";
  for (const auto* pattern : {"k", "k|0", "(?:k|kq)", "[k]|\\PZ{9}", "k{1}", "(?:0|k)+"})
    CHECK(spans_of(pattern, true, text) == "0-1 2-3 ");
  CHECK(spans_of("x0|xs", true, "x\u017f xS") == "4-6 ");
  CHECK(spans_of("\u212a", true, text) == "0-1 2-3 4-7 ");
  CHECK(spans_of("[é\u212a]", true, text) == "0-1 2-3 4-7 ");
  CHECK(spans_of("\\x{212a}", true, text) == "0-1 2-3 4-7 ");
}

TEST_CASE("a part that only RE2 understands leaves the rest of a pattern as it is") {
  CHECK(spans_of("a[\\x00-\\x7f]\\pL", true, "a\né a-é") == "5-9 ");
  CHECK(spans_of("a[^é]", true, "a\nab") == "2-4 ");
  CHECK(spans_of("a[é\\n]b", true, "a\nb") == "0-3 ");
}

TEST_CASE("a literal that is not UTF-8 is found as bytes, its letters in any case") {
  CHECK(spans_of("Caf\xe9", false, "caf\xe9 cafe") == "0-4 ");
}

TEST_CASE("a match across lines may begin behind an empty one") {
  CHECK(spans_of("\\b(a\\n-)?", true, "x a\n-") == "0-0 2-5 ");
}

}  // namespace
}  // namespace warren::search
