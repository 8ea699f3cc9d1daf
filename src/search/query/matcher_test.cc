#include "search/query/matcher.h"

#include <doctest/doctest.h>
#include <re2/re2.h>

#include <algorithm>
#include <set>

#include "search/text/random_regex.h"
#include "search/text/rounds.h"

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
        // Non-ASCII text, valid and invalid, where "." and "[^a]" match characters, not bytes.
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

TEST_CASE("around the cores of patterns across lines there is what is in the whole text") {
  RandomRegex random(11);
  constexpr std::string_view between[] = {"\\n",     "\\s*",  "\\s+",           "\\n\\s*",
                                          ".*\\n",   "[^;]*", "(?:\\n|a|foo)*", "\\s{0,9}",
                                          "(?s:.)?", "$\\n^"};
  int cores = 0, matches = 0;
  for (int round = 0; round < rounds(3000); ++round) {
    std::string regex = random.regex(1);
    for (auto count = 1 + random.below(3); count > 0; --count)
      regex += std::string(between[random.below(std::size(between))]) + random.regex(1);
    Pattern pattern{
        .text = regex + "(?s:)\\n?", .is_regex = true, .ignores_case = random.below(2) == 0};
    CAPTURE(pattern.text);
    auto slow = Matcher::compile(pattern), fast = Matcher::compile(pattern);
    REQUIRE(fast);
    (*fast)->expect(1 << 30);
    auto parsed = parse_regex(pattern.text, pattern.ignores_case);
    cores += parsed && core_of(*parsed).has_value();
    for (int i = 0; i < 6; ++i) {
      std::string text;
      for (auto count = random.below(40); count > 0; --count)
        text += random.line(8) + (random.below(9) == 0 ? "\xc3\xa9\xff" : "") +
                (random.below(3) == 0 ? "\n\n" : "\n");
      bool is_ascii = !text.contains('\xff');
      std::vector<Span> expected, found, first;
      Finder(*slow).find_all(text, is_ascii, expected);
      Finder(*fast).find_all(text, is_ascii, found);
      CAPTURE(text);
      REQUIRE(found == expected);
      Finder(*fast).find_all(text, is_ascii, first, 2);
      if (expected.size() > 2) expected.resize(2);
      REQUIRE(first == expected);
      matches += static_cast<int>(found.size());
    }
  }
  CHECK(cores > rounds(500));
  CHECK(matches > rounds(1000));
}

TEST_CASE("a core is what is rarest, and how far a match reaches from it is known") {
  auto core = [](std::string_view pattern) { return core_of(*parse_regex(pattern, false)); };
  auto lines = core(R"(\{\n\s*return\s0;\n\})");
  REQUIRE(lines);
  CHECK(lines->most_bytes == 11);
  REQUIRE(lines->before.size() == 2);
  CHECK(lines->before[0].run.count() == 5);
  CHECK(lines->before[1].most == 2);
  CHECK(lines->after.empty());
  std::string text = "; {\n  return 0;\n} ;;; {\n\n\n\treturn 0;\n} ;;; return 0;\n}";
  Stretches stretches(*lines, text);
  CHECK(!stretches.add(text.find('}') + 1));
  CHECK(stretches.add(text.find('}', 20) + 1) == Span{1, 17});
  CHECK(stretches.add(text.size()) == Span{21, 38});
  CHECK(stretches.last() == Span{40, 54});
  for (const auto* pattern : {R"(a\n)", R"((?s)foo.*bar)", R"(\pL+\nfoo)", R"([a-z]{20}\n)"})
    CHECK(!core(pattern));
}

TEST_CASE("a core that ends in one place or the next is found in both") {
  const std::pair<std::string, std::string> cases[] = {
      {R"((?:foobar$|bar\n))", "xx foobar\nxx\n"},
      {R"([ab\n]*(?:foobar\b|bar ))", "; a\nabab\nfoobar xx\n"},
      {R"(\{\n\s*(?:pthread_exit\b|exit\())", "{\n  pthread_exit(0);\n}\n"},
      {R"(\n\s*(?:return 0;$|urn 0;\n))", "{\n  return 0;\n}\n"},
      {R"(\w+\n\s*(?:kfree\B|freez))", "abc\n  kfreez(0);\n"}};
  for (const auto& [regex, text] : cases)
    for (std::size_t more : {0, 200, 3000}) {
      std::string padded = std::string(more, ';') + text + std::string(more, ';');
      Pattern pattern{.text = regex, .is_regex = true};
      auto slow = Matcher::compile(pattern), fast = Matcher::compile(pattern);
      REQUIRE(fast);
      (*fast)->expect(1 << 30);
      std::vector<Span> expected, found;
      Finder(*slow).find_all(padded, true, expected);
      Finder(*fast).find_all(padded, true, found);
      CAPTURE(regex);
      CAPTURE(more);
      CHECK(expected.size() == 1);
      CHECK(found == expected);
    }
}

TEST_CASE("where cores stand side by side the rest is looked at in one go") {
  Pattern pattern{.text = R"(foo;?\s*\n(?:bar)?)", .is_regex = true};
  auto slow = Matcher::compile(pattern), fast = Matcher::compile(pattern);
  REQUIRE(fast);
  (*fast)->expect(1 << 30);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += i % 7 == 0 ? "foo \nbar" : "x foo x\n";
  std::vector<Span> expected, found, some;
  Finder(*slow).find_all(text, true, expected);
  Finder(*fast).find_all(text, true, found);
  CHECK(expected.size() > 100);
  CHECK(found == expected);
  Finder(*fast).find_all(text, true, some, 120);
  expected.resize(120);
  CHECK(some == expected);
}

TEST_CASE("long rows of bytes around many cores are looked at once") {
  Pattern pattern{.text = R"(x[^;]*foo\n[^;]*y)", .is_regex = true};
  auto matcher = Matcher::compile(pattern);
  REQUIRE(matcher);
  (*matcher)->expect(1 << 30);
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "foo\n";  // each match reaches both ends
  CHECK(!Finder(*matcher).finds(text, true));
  CHECK(Finder(*matcher).finds("x" + text + "y", true));
}

TEST_CASE("beyond ASCII, any case is RE2's, for literals too") {
  auto matcher = Matcher::compile({.text = "ÄRGER", .ignores_case = true});
  REQUIRE(matcher);
  Finder finder(*matcher);
  CHECK(finder.finds("viel ärger\n", false));
  CHECK(!finder.finds("viel arger\n", true));
  auto ascii = Matcher::compile({.text = "mask", .ignores_case = true});
  // The Kelvin sign folds to k in Unicode. We fold ASCII letters only to ASCII letters.
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
