#include "search/query/query.h"

#include <doctest/doctest.h>

#include <random>

#include "search/query/repo_filter.h"

namespace warren::search {
namespace {

std::string parsed(std::string_view text) {
  auto query = parse_query(text);
  return query ? to_string(*query->root) : query.error().what;
}

struct Case {
  std::string_view text, expected;
};

TEST_CASE("queries mean what they mean in zoekt") {
  const Case cases[] = {
      {"", "all"},
      {"   ", "all"},
      {"foo", R"("foo"i)"},
      {"Foo", R"("Foo")"},
      {"foo bar", R"((and "foo"i "bar"i))"},
      {"foo or bar", R"((or "foo"i "bar"i))"},
      {"a b or c d", R"((or (and "a"i "b"i) (and "c"i "d"i)))"},
      {"orange", R"("orange"i)"},
      {"-foo", R"((not "foo"i))"},
      {"--foo", R"((not (not "foo"i)))"},
      {"foo -file:test", R"((and "foo"i (not file:"test"i)))"},
      {"a - b", R"((and "a"i "-"i "b"i))"},
      {R"("foo bar")", R"("foo bar"i)"},
      {R"("a.b(")", R"("a.b("i)"},
      {R"("say \"hi\"")", R"("say "hi""i)"},
      {R"("or")", R"("or"i)"},
      {R"("a\\b")", R"("a\b"i)"},
      {"\"a\\nb\"", "\"a\nb\"i"},
      {R"(foo" bar")", R"("foo bar"i)"},
      {R"(x.*" bar")", R"(/x.*\ bar/i)"},
      {"foo.*bar", "/foo.*bar/i"},
      {R"(foo\.bar)", R"("foo.bar"i)"},
      {R"(\Sfoo)", R"(/\Sfoo/i)"},
      {R"(\Sfoo case:yes)", R"(/\Sfoo/)"},
      {"Foo case:no", R"("Foo"i)"},
      {"foo case:auto", R"("foo"i)"},
      {"(read|write)_seq(lock|unlock)", "/(read|write)_seq(lock|unlock)/i"},
      {"(foo bar)", R"((and "foo"i "bar"i))"},
      {"(foo or bar) baz", R"((and (or "foo"i "bar"i) "baz"i))"},
      {"-(foo or bar)", R"((not (or "foo"i "bar"i)))"},
      {"((a b) or (c d))", R"((or (and "a"i "b"i) (and "c"i "d"i)))"},
      {"(file:x)", R"(file:"x"i)"},
      {R"(("a b"))", R"("a b"i)"},
      {"foo[(]bar", "/foo[(]bar/i"},
      {"f:abc file:b.c", R"((and file:"abc"i file:/b.c/i))"},
      {"file:*.cc", R"(file:/[^/]*\.cc$/i)"},
      {"r:x repo:^y$", R"((and repo:"x"i repo:/^y$/i))"},
      {"lang:c++ l:go", "(and lang:c++ lang:go)"},
      {"b:main branch:x", "(and branch:main branch:x)"},
      {"sym:Foo", R"(sym:"Foo")"},
      {"c:x content:Y", R"((and content:"x"i content:"Y"))"},
      {"url:http", R"("url:http"i)"},
      {"foo case:yes", R"("foo")"},
      {"case:yes", "all"},
      {"type:repo foo", R"("foo"i)"},
      {R"(file:"a b")", R"(file:"a b"i)"},
      {"{\\n\\s*return", "/{\\n\\s*return/i"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    CHECK(parsed(text) == expected);
  }
}

TEST_CASE("what is wrong with a query is said with its column") {
  const Case cases[] = {
      {"(foo bar", R"(column 1: "(" is not closed)"},
      {"a (b (c d)", R"(column 3: "(" is not closed)"},
      {"foo)", R"x(column 4: there is no "(" for this ")")x"},
      {"foo(bar", R"(column 4: "(" is not closed)"},
      {"foo(a b)", R"(column 4: "(" is not closed; what has spaces must be quoted)"},
      {R"(foo "bar)", "column 5: the quote is not closed"},
      {R"(foo \)", R"(column 5: a character is expected after "\")"},
      {"or foo", R"(column 1: an expression is expected before "or")"},
      {"foo or", R"(column 7: an expression is expected after "or")"},
      {"foo or or bar", R"(column 8: an expression is expected after "or")"},
      {"( )", "column 2: an expression is expected in the parentheses"},
      {"file:", R"(column 6: a pattern is expected after "file:")"},
      {"x lang: y", R"(column 8: a language is expected after "lang:")"},
      {"case:maybe", R"(column 6: yes, no or auto is expected, not "maybe")"},
      {"type:banana", R"(column 6: file, path, repo, symbol or content is expected, not "banana")"},
      {"count:many", R"(column 7: a number or all is expected, not "many")"},
      {"count:0", R"(column 7: a number or all is expected, not "0")"},
      {R"("")", "column 1: a pattern has at least one character"},
      {"-case:yes", R"(column 1: a pattern or a filter is expected after "-")"},
      {"foo a**", "column 5: bad repetition operator: **"},
      {"x[a", "column 1: missing ]: [a"},
      {"a{2000}", "column 1: invalid repetition size: {2000}"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    CHECK(parsed(text) == expected);
  }
  CHECK(parsed(std::string(5000, 'a')) == "column 4097: a query has at most 4096 bytes");
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "(a ";
  CHECK(parsed(deep) == "column 194: at most 64 levels may be nested");
  CHECK(parsed(std::string(200, '-') + "a") == "column 66: at most 64 levels may be nested");
}

TEST_CASE("type:, select: and count: say what is listed") {
  CHECK(parse_query("foo type:filename")->select == Select::files);
  CHECK(parse_query("foo select:repo")->select == Select::repos);
  CHECK(parse_query("foo select:path")->select == Select::paths);
  CHECK(parse_query("foo t:filematch")->select == Select::lines);
  CHECK(parse_query("foo select:symbol")->select == Select::symbols);
  CHECK(parse_query("foo count:7")->count == 7);
  CHECK(parse_query("foo count:all")->count == 0);
  CHECK(!parse_query("foo")->count);
}

TEST_CASE("no text makes the parser fail otherwise than with a column") {
  const std::string_view pieces[] = {
      "a",  "(", ")", "\"", "\\", "-",    "or",    " ",      "[",     "]",     "file:", "case:",
      "r:", "*", ".", "|",  "\n", "\xff", "lang:", "count:", "type:", "sym:x", "foo ",  "{2}"};
  std::mt19937 random(3);
  int good = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string text;
    for (auto count = random() % 12; count > 0; --count)
      text += pieces[random() % std::size(pieces)];
    CAPTURE(text);
    auto query = parse_query(text);
    if (query) {
      ++good;
      CHECK(!to_string(*query->root).empty());
    } else {
      CHECK(query.error().code == Errc::invalid);
      CHECK(query.error().what.starts_with("column "));
    }
  }
  CHECK(good > 5000);
}

TEST_CASE("patterns that take long to compile are known by their look, and bounded together") {
  CHECK(parses_quickly("foo.*bar (a|b)+ [^x]"));
  CHECK_FALSE(parses_quickly("a{2}"));
  CHECK_FALSE(parses_quickly("\\pL"));
  CHECK(parse_query("\\pL{20}"));
  CHECK(parse_query("a{1000} b{1000}"));
  std::string many;
  for (int i = 0; i < 400; ++i) many += "\\pL{90} ";
  auto refused = parse_query(many);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.contains("too large"));
}

TEST_CASE("what a query says of a repository by its name is yes, no, or that its files decide") {
  using enum RepoFilter::Verdict;
  struct Says {
    const char* query;
    RepoFilter::Verdict of_foo, of_bar;
  };
  for (auto [text, of_foo, of_bar] :
       {Says{"word", maybe, maybe}, Says{"", yes, yes}, Says{"repo:foo", yes, no},
        Says{"repo:FOO case:no", yes, no}, Says{"repo:FOO", no, no}, Says{"repo:^h/f.o$", yes, no},
        Says{"-repo:foo", no, yes}, Says{"repo:foo word", maybe, no},
        Says{"repo:foo or word", yes, maybe}, Says{"repo:foo or repo:bar", yes, yes},
        Says{"-(repo:foo word)", maybe, yes}, Says{"repo:foo repo:bar", no, no},
        Says{"lang:c file:x", maybe, maybe}}) {
    CAPTURE(text);
    auto query = parse_query(text);
    REQUIRE(query);
    auto filter = RepoFilter::of(*query->root);
    REQUIRE(filter);
    CHECK(filter->says("h/foo") == of_foo);
    CHECK(filter->says("h/bar") == of_bar);
  }
}

}  // namespace
}  // namespace warren::search
