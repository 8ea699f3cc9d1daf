#include "search/text/regex.h"

#include <doctest/doctest.h>
#include <re2/re2.h>

#include <set>

#include "search/index/segment.h"
#include "search/query/formula.h"
#include "search/text/random_regex.h"
#include "search/text/rounds.h"

namespace warren::search {
namespace {

std::set<std::uint32_t> keys_of(std::string_view text) {
  std::set<std::uint32_t> keys;
  for (std::size_t i = 0; i + 2 < text.size(); ++i)
    keys.insert(key_of(static_cast<unsigned char>(text[i]), static_cast<unsigned char>(text[i + 1]),
                       static_cast<unsigned char>(text[i + 2])));
  return keys;
}

bool holds_for(const Formula& formula, std::string_view text) {
  auto keys = keys_of(text);
  return holds(formula, [&](std::uint32_t key) { return keys.contains(key); });
}

bool holds_for(std::string_view pattern, std::string_view text) {
  auto regex = parse_regex(pattern, false);
  REQUIRE(regex);
  return holds_for(formula_of(*regex), text);
}

RE2::Options quiet() {
  RE2::Options options;
  options.set_log_errors(false);
  return options;
}

TEST_CASE(
    "a formula holds wherever RE2 finds a match, and our spelling of a pattern matches alike") {
  RandomRegex random(11);
  int understood = 0, matched = 0, filtered = 0;
  for (int round = 0; round < rounds(6000); ++round) {
    std::string pattern = random.regex();
    bool ignores_case = random.below(2) == 0;
    CAPTURE(pattern);
    CAPTURE(ignores_case);
    auto regex = parse_regex(pattern, ignores_case);
    if (!regex) continue;
    ++understood;
    auto options = quiet();
    options.set_case_sensitive(!ignores_case);
    RE2 theirs("(?m)" + pattern, options);
    REQUIRE(theirs.ok());
    RE2 ours(for_re2(*regex), quiet());
    CAPTURE(ours.pattern());
    REQUIRE(ours.ok());
    auto formula = formula_of(*regex);
    for (int i = 0; i < 12; ++i) {
      std::string text = random.line(30);
      CAPTURE(text);
      re2::StringPiece a, b;
      bool is_match = theirs.Match(text, 0, text.size(), RE2::UNANCHORED, &a, 1);
      REQUIRE(ours.Match(text, 0, text.size(), RE2::UNANCHORED, &b, 1) == is_match);
      bool may_match = holds_for(formula, text);
      if (is_match) {
        REQUIRE(a.data() == b.data());
        REQUIRE(a.size() == b.size());
        REQUIRE(may_match);
      }
      matched += is_match;
      filtered += !may_match;
    }
  }
  CHECK(understood > rounds(5500));
  CHECK(matched > rounds(5000));
  CHECK(filtered > rounds(20'000));
}

TEST_CASE("a formula asks for what every match has") {
  CHECK(holds_for("foobar", "xfoobarx"));
  CHECK(!holds_for("foobar", "foo bar"));
  CHECK(holds_for("(read|write)_seq(lock|unlock)", "write_sequnlock"));
  CHECK(!holds_for("(read|write)_seq(lock|unlock)", "reat_seqlock"));
  CHECK(!holds_for("kmalloc\\([^,]+,\\s*GFP_ATOMIC\\)", "kmalloc(x, GFP_KERNEL)"));
  CHECK(!holds_for("struct\\s+\\w+_operations\\s+\\w+\\s*=", "struct file_operation x ="));
  CHECK(holds_for("^#define\\s+[A-Z_]+_MAX\\b", "#define  FOO_MAX 3"));
  CHECK(!holds_for("^#define\\s+[A-Z_]+_MAX\\b", "#defin  FOO_MAX 3"));
  CHECK(!holds_for("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}", "plain text without"));
  CHECK(!holds_for("abcd*", "xbc"));
  CHECK(!holds_for("(abc)+def", "abc de"));
  CHECK(holds_for("fo", ""));
  CHECK(holds_for(".*", ""));
  CHECK(holds_for("", ""));
}

TEST_CASE("no key reaches over a line's end, since blocks end there") {
  CHECK(holds_for("abc\\ndef", "abc def"));
  CHECK(holds_for(formula_of("abc\ndef"), "def abc"));
  CHECK(!holds_for(formula_of("abc\ndef"), "abc dex"));
}

TEST_CASE("a pattern is multi-line only when it says so") {
  auto is_multi_line = [](std::string_view pattern) {
    return parse_regex(pattern, false)->is_multi_line;
  };
  for (std::string_view pattern : {"a\\nb", "a\nb", "(?s)a.b", "[\\s\\S]", "a[x\\n]", "a\\x0ab"})
    CHECK_MESSAGE(is_multi_line(pattern), pattern);
  for (std::string_view pattern : {"a\\s+b", "[^x]", ".", "\\W", "[^\\n]", "(?s)ab", "[[:space:]]"})
    CHECK_MESSAGE(!is_multi_line(pattern), pattern);
}

TEST_CASE("what is not understood is left to RE2") {
  for (std::string_view pattern : {"\\C", "a**", "\\07"})
    CHECK_MESSAGE(!parse_regex(pattern, false), pattern);
}

TEST_CASE("of a part that RE2 alone understands nothing is known, and the rest has its keys") {
  for (std::string_view pattern : {"\\pLdef", "[\\pN]def", "def[é]"}) {
    CHECK_MESSAGE(holds_for(pattern, "def"), pattern);
    CHECK_MESSAGE(!holds_for(pattern, "abc"), pattern);
  }
  CHECK(holds_for("\\x{100}def", "Ādef"));
}

TEST_CASE("patterns that every line matches are known as such") {
  auto is_everything = [](std::string_view pattern) {
    return matches_everything(parse_regex(pattern, false)->root);
  };
  for (std::string_view pattern : {"", ".*", "x*", "^", "$", "(a|b*)", "^.*", "a{0,3}"})
    CHECK_MESSAGE(is_everything(pattern), pattern);
  for (std::string_view pattern : {"^$", "a", ".", ".+", "\\b", "^\\s*$", "(^)(x*)($)"})
    CHECK_MESSAGE(!is_everything(pattern), pattern);
}

TEST_CASE("Hyperscan gets no pattern that it would match differently or compile for long") {
  auto is_for_hyperscan = [](std::string_view pattern, bool ignores_case = false) {
    auto regex = parse_regex(pattern, ignores_case);
    return for_hyperscan(*regex).has_value();
  };
  CHECK(is_for_hyperscan("a\\w+b"));
  CHECK(is_for_hyperscan("^a|b$"));
  for (std::string_view pattern : {"x*", "^$", "a{500}b{600}", "(a{50}){50}", "a\\n\\z"})
    CHECK_MESSAGE(!is_for_hyperscan(pattern), pattern);
  CHECK(is_for_hyperscan("é"));
  CHECK(!is_for_hyperscan("é", true));
  CHECK(for_hyperscan(*parse_regex("a.b", false))->is_for_ascii);
  CHECK(!for_hyperscan(*parse_regex("a\\wb", false))->is_for_ascii);
}

}  // namespace
}  // namespace warren::search
