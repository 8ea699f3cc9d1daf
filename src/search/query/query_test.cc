#include "search/query/query.h"

#include <doctest/doctest.h>

#include <random>

#include "search/query/matcher.h"
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
      // In quotes a backslash stands for itself, except in these four escapes.
      {R"("foo\bar")", R"("foo\bar"i)"},
      {R"("C:\dir\\")", R"("C:\dir\")"},
      {R"("\d+\.\"")", R"("\d+\.""i)"},
      {R"(file:"a\.b")", R"(file:"a\.b"i)"},
      // A quote begins a quotation only at the beginning of a word. Elsewhere it is searched for.
      {R"(panic\("[a-z]+"\))", R"x(/panic\("[a-z]+"\)/i)x"},
      {R"(say"hi")", R"("say"hi""i)"},
      {R"(x="a" y)", R"((and "x="a""i "y"i))"},
      {R"(key:"a.*b")", R"(/key:"a.*b"/i)"},
      {R"(=\"a b\")", R"((and "="a"i "b""i))"},
      {R"(foo\("\w+")", R"x(/foo\("\w+"/i)x"},
      {R"(("a(b" or c))", R"((or "a(b"i "c"i))"},
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
      {"regex:a.c", "/a.c/i"},
      {"regex:foo", R"("foo"i)"},
      {R"(regex:"static int .*\(")", R"(/static int .*\(/i)"},
      {R"(-regex:"a \"b\\")", R"((not "a "b\"i))"},
      {"foo archived:no", R"("foo"i)"},
      {"public:yes fork:no -archived:yes foo", R"("foo"i)"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    CHECK(parsed(text) == expected);
  }
}

TEST_CASE("what is wrong with a query is said with its column") {
  const Case cases[] = {
      {"(foo bar", R"(column 1: "(" is not closed; as it stands: "(foo bar")"},
      {"a (b (c d)", R"x(column 3: "(" is not closed; as it stands: "(b (c d)")x"},
      {"foo)", R"x(column 4: there is no "(" for this ")"; as it stands: "foo)")x"},
      {"foo(", R"(column 4: "(" is not closed; as it stands: "foo(")"},
      {"foo(bar baz", R"(column 4: "(" is not closed; as it stands: "foo(bar")"},
      {"content:foo(", R"(column 12: "(" is not closed; as it stands: content:"foo(")"},
      {R"(say("hi")", R"(column 4: "(" is not closed; as it stands: "say(\"hi\"")"},
      {"foo(a b)", R"x(column 4: "(" is not closed before the space; as it stands: "foo(a b)")x"},
      {R"(foo "bar)", R"(column 5: the quote is not closed; one that is looked for is \")"},
      {R"(foo \)", R"(column 5: a character is expected after "\")"},
      {"or foo", R"(column 1: an expression is expected before "or")"},
      {"foo or", R"(column 7: an expression is expected after "or")"},
      {R"("foo"bar)",
       R"(column 6: a space is expected behind what is quoted; a quote that is looked for is \")"},
      {R"("key":\s+1)",
       R"(column 6: a space is expected behind what is quoted; a quote that is looked for is \")"},
      {R"(foo" bar")",
       R"(column 4: only a whole word can be quoted; a quote that is looked for is \")"},
      {R"(x="a b")",
       R"(column 3: only a whole word can be quoted; a quote that is looked for is \")"},
      {R"("C:\dir\")",
       R"(column 1: the quote is not closed; in quotes \" is a quote and \\ a backslash)"},
      {"file:*.(go|rs)",
       "column 6: what begins with * is a glob, which has *, **, ?, [a-z] and {a,b}; a regular "
       "expression begins with .*"},
      {"archived:maybe", R"(column 10: yes or no is expected, not "maybe")"},
      {"fork:", R"(column 6: yes or no is expected after "fork:")"},
      {"(archived:no foo)",
       "column 2: archived: holds for the whole query: put it outside of parentheses"},
      {"foo or fork:no bar",
       "column 8: archived:, fork: and public: hold for the whole query: they cannot stand beside "
       "an \"or\""},
      {"public:yes foo -public:yes", "column 17: public: is said twice, yes and no"},
      {"regex:", R"(column 7: a pattern is expected after "regex:")"},
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
      {"foo a**", R"(column 5: bad repetition operator: **; as it stands: "a**")"},
      {"i++", R"(column 1: bad repetition operator: ++; as it stands: "i++")"},
      {"x[a", R"(column 1: missing ]: [a; as it stands: "x[a")"},
      {"a{2000}", R"(column 1: invalid repetition size: {2000}; as it stands: "a{2000}")"},
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

TEST_CASE("globs of paths and repositories are read as such where they cannot mean anything else") {
  struct Glob {
    std::string_view word;
    std::vector<std::string_view> fits, others;
  };
  for (const auto& [word, fits, others] : {
           Glob{"*.go", {"a.go", "x/y.go"}, {"a.gox", "a_go"}},
           Glob{"*.{go,rs}", {"a.go", "x/b.rs"}, {"a.cc", "go,rs", "a.{go,rs}"}},
           Glob{"src/*.go", {"src/a.go", "x/src/a.go"}, {"src/x/a.go", "mysrc/a.go", "srcxgo"}},
           Glob{"/src/*.go", {"src/a.go"}, {"x/src/a.go"}},
           Glob{"src/**/*.go", {"src/a.go", "src/x/y/a.go"}, {"srca.go", "a.go"}},
           Glob{"**/test/*", {"test/a", "x/test/b.cc"}, {"test/a/b", "mytest/a"}},
           Glob{"src/**", {"src/a/b", "src/c"}, {"mysrc/a"}},
           Glob{"docs/*/", {"docs/x/a.md", "docs/x/y/z"}, {"docs/a.md"}},
           Glob{"a?c/*", {"abc/x"}, {"a/c/x", "ac/x"}},
           Glob{"*.[ch]", {"a.c", "b.h"}, {"a.cc", "a.o"}},
           Glob{"*.[!ch]", {"a.o"}, {"a.c", "a."}},
           Glob{"{a,b}.c++", {"a.c++", "x/b.c++"}, {"c.c++", "a.ccc"}},
           // These remain regular expressions.
           Glob{R"(\.go$)", {"a.go"}, {"a.gox"}},
           Glob{"src/.*go", {"src/x/go"}, {"src"}},
           Glob{"test*", {"tes", "testtt"}, {"te"}},
           Glob{"x{2,3}", {"xx"}, {"x{2,3}"}},
       }) {
    CAPTURE(word);
    for (std::string field : {"file:", "repo:"}) {
      auto query = parse_query(field + std::string(word));
      REQUIRE_MESSAGE(query, (query ? "" : query.error().what));
      auto matcher = Matcher::compile(query->root->pattern);
      REQUIRE(matcher);
      for (auto path : fits) CHECK_MESSAGE(Finder(*matcher).finds(path, false), path);
      for (auto path : others) CHECK_FALSE_MESSAGE(Finder(*matcher).finds(path, false), path);
    }
  }
}

TEST_CASE("what a query hardly means, or may have meant, is told beside it") {
  auto notes = [](std::string_view text) {
    auto query = parse_query(text);
    REQUIRE_MESSAGE(query, (query ? "" : query.error().what));
    return query->notes;
  };
  auto guesses = [](std::string_view text) { return parse_query(text)->guesses; };
  using Texts = std::vector<std::string>;
  CHECK(notes("foo lang:pyhton") ==
        Texts{"no file is of a language \"pyhton\": did you mean Python?"});
  CHECK(notes("-lang:golnag foo") ==
        Texts{"no file is of a language \"golnag\": did you mean Go?"});
  CHECK(notes("lang:xyzzyx") == Texts{"no file is of a language \"xyzzyx\""});
  CHECK(notes("lang:c++ l:golang lang:\"protocol buffer\" lang:Dockerfile lang:\"\"").empty());
  CHECK(notes("main()") ==
        Texts{"\"()\" is an empty group of a regular expression; as it stands: \"main()\""});
  CHECK(notes(R"x("main()" main\(\) [()] (a|b))x").empty());
  CHECK(guesses("file:foo*.go") ==
        Texts{"file:foo*.go is a regular expression; as a glob it would be "
              "file:(^|/)foo[^/]*\\.go$"});
  CHECK(guesses(R"(file:"*.go")") ==
        Texts{R"(file:"*.go" is looked for as it stands; without quotes it is a glob)"});
  CHECK(guesses("meta.license:MIT") ==
        Texts{"repositories have no metadata here: meta.license:MIT is looked for as text"});
  CHECK(guesses("file:*.go file:src/*.go file:a.*b file:[a-z]* r:x foo*").empty());
}

TEST_CASE("archived:, fork: and public: say what repositories have to be") {
  auto kinds = parse_query("foo archived:no -fork:yes public:no")->kinds;
  CHECK(kinds.is_archived == false);
  CHECK(kinds.is_fork == false);
  CHECK(kinds.is_private == true);
  CHECK(parse_query("--archived:yes foo")->kinds.is_archived == true);
  CHECK(parse_query("archived:no archived:no")->kinds.is_archived == false);
  CHECK_FALSE(parse_query("foo")->kinds.is_any());
  CHECK_FALSE(parse_query("\"archived:no\"")->kinds.is_any());
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
      "a",     "(",     ")",    "\"",  "\\",     "-",     "or",  " ",    "[",     "]",
      "file:", "case:", "r:",   "*",   ".",      "|",     "\n",  "\xff", "lang:", "count:",
      "type:", "sym:x", "foo ", "{2}", "regex:", "fork:", "yes", "{a,",  "}",     "/*"};
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
