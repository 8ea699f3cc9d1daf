#include "services/fleet/zoekt/query.h"

#include <doctest/doctest.h>

#include "search/query/matcher.h"
#include "search/query/query.h"

namespace warren::fleet {

namespace {

// What our engine makes of it.
std::string meaning_of(std::string_view zoekt) {
  auto query = parse_zoekt_query(zoekt);
  REQUIRE_MESSAGE(query, zoekt << ": " << (query ? "" : query.error().what));
  auto parsed = search::parse_query(query->text);
  REQUIRE_MESSAGE(parsed, query->text << ": " << (parsed ? "" : parsed.error().what));
  return search::to_string(*parsed->root);
}

}  // namespace

TEST_CASE("queries of zoekt mean the same in our language") {
  constexpr std::pair<const char*, const char*> same[] = {
      {"foo", R"("foo"i)"},
      {"Foo", R"("Foo")"},
      {"foo bar", R"((and "foo"i "bar"i))"},
      {"foo or bar baz", R"((or "foo"i (and "bar"i "baz"i)))"},
      {"-foo bar", R"((and (not "foo"i) "bar"i))"},
      {"--foo bar", R"((and "foo"i "bar"i))"},
      {"- foo bar", R"((and (not "foo"i) "bar"i))"},
      {"(foo or bar) baz", R"((and (or "foo"i "bar"i) "baz"i))"},
      {"-(foo or bar) baz", R"((and (not (or "foo"i "bar"i)) "baz"i))"},
      {"((a or b) c) or d", R"((or (and (or "a"i "b"i) "c"i) "d"i))"},
      {R"(foo\.bar)", R"("foo.bar"i)"},
      // What is quoted is a regular expression for zoekt.
      {R"("foo bar")", R"("foo bar"i)"},
      {R"("foo.bar")", R"(/(?:foo.bar)/i)"},
      {R"("foo .*bar")", R"(/(?:foo\ .*bar)/i)"},
      {R"(a"b c"d)", R"("ab cd"i)"},
      {R"("say \"hi\"")", R"("say "hi""i)"},
      {R"("file:x")", R"("file:x"i)"},
      {R"("file:x.*")", R"(/(?:file:x.*)/i)"},
      {R"("or")", R"("or"i)"},
      {"(foo|bar)", R"(/(?:(foo|bar))/i)"},
      {"[a-z ]", nullptr},
      // Words of ours that zoekt does not know are text.
      {"l:go", R"("l:go"i)"},
      {"count:all", R"("count:all"i)"},
      {"select:file", R"("select:file"i)"},
      {R"(file:\.go$)", R"(file:/(?:\.go$)/i)"},
      {"f:main -f:test", R"((and file:"main"i (not file:"test"i)))"},
      {"c:foo content:Bar", R"((and content:"foo"i content:"Bar"))"},
      {"r:^github\\.com/x$ foo", R"((and repo:/(?:^github\.com/x$)/i "foo"i))"},
      {"sym:Lease", R"(sym:"Lease")"},
      {"lang:c++ foo", R"((and lang:c++ "foo"i))"},
      {"b:main foo", R"((and branch:main "foo"i))"},
      {"regex:a.c", R"(/(?:a.c)/i)"},
      {"case:yes foo", R"("foo")"},
      {"case:no Foo", R"("Foo"i)"},
      {"archived:no fork:no public:yes foo", R"("foo"i)"},
      {"branch:HEAD foo", R"("foo"i)"},
  };
  for (const auto& [zoekt, ours] : same) {
    if (!ours) continue;
    CAPTURE(zoekt);
    CHECK(meaning_of(zoekt) == ours);
  }
}

TEST_CASE("what zoekt's words and ours have in common means the same in both") {
  for (const char* text :
       {"regex:a.c", "regex:foo", R"(regex:"a .*b")", "archived:no foo", "-fork:yes foo",
        "public:no foo", "foo.*bar", "(read|write)_lock", R"(foo\.bar)", "lang:c++ foo",
        R"(panic\(\"[a-z]+\"\))", R"("foo bar")", R"("say \"hi\"")", "i[+][+]"}) {
    CAPTURE(text);
    auto theirs = parse_zoekt_query(text);
    auto ours = search::parse_query(text);
    REQUIRE(theirs);
    REQUIRE(ours);
    CHECK(theirs->is_archived == ours->kinds.is_archived);
    CHECK(theirs->is_fork == ours->kinds.is_fork);
    CHECK(theirs->is_private == ours->kinds.is_private);
    // A pattern may be written in another way: both find the same.
    auto read = search::parse_query(theirs->text);
    REQUIRE(read);
    const auto *a = read->root.get(), *b = ours->root.get();
    while (!a->parts.empty() && !b->parts.empty()) {
      CHECK(a->kind == b->kind);
      a = a->parts.back().get();
      b = b->parts.back().get();
    }
    auto matcher_a = search::Matcher::compile(a->pattern);
    auto matcher_b = search::Matcher::compile(b->pattern);
    REQUIRE(matcher_a);
    REQUIRE(matcher_b);
    for (const char* line : {"a.c", "abc", "ac", "foo", "a xb", "foo bar", "fooxbar", "read_lock",
                             "foo.bar", "say \"hi\"", "panic(\"x\")", "panic(x)", "i++"}) {
      CAPTURE(line);
      CHECK(search::Finder(*matcher_a).finds(line, false) ==
            search::Finder(*matcher_b).finds(line, false));
    }
  }
}

TEST_CASE("kinds of repositories and results are taken out of the words") {
  auto query = parse_zoekt_query("foo archived:no -fork:yes public:no type:repo");
  REQUIRE(query);
  CHECK(query->is_archived == false);
  CHECK(query->is_fork == false);
  CHECK(query->is_private == true);
  CHECK_FALSE(query->is_of_head);
  CHECK(search::parse_query(query->text)->select == search::Select::repos);
  CHECK(parse_zoekt_query("type:filename foo")->text.contains("type:file"));
  CHECK(parse_zoekt_query("branch:HEAD foo")->is_of_head);
  CHECK(parse_zoekt_query("public:yes")->text.empty());
  CHECK(parse_zoekt_query("")->text.empty());
}

TEST_CASE("what our language cannot say is refused with its word") {
  constexpr std::pair<const char*, const char*> refused[] = {
      {"meta.license:MIT foo", "metadata"},
      {"(case:yes foo) or bar", "case:yes"},
      {"(type:repo foo) or bar", "type:repo"},
      {"archived:no foo or bar", "or"},
      {"(archived:no foo)  bar", "archived:no"},
      {"archived:no archived:yes foo", "archived:yes"},
      {"archived:maybe foo", "yes or no"},
      {"case:never foo", "case:never"},
      {"type:commit foo", "type:commit"},
      {"-branch:HEAD foo", "branch:HEAD"},
      {"(foo bar", "not closed"},
      {"foo) bar", "without"},
      {"( ) foo", "nothing between"},
      {"\"foo", "quote"},
      {"foo\\", "lone"},
      {"or foo", "before"},
      {"foo or", "after"},
      {"foo -", "after it"},
      {"file:", "no value"},
  };
  for (const auto& [zoekt, says] : refused) {
    CAPTURE(zoekt);
    auto query = parse_zoekt_query(zoekt);
    REQUIRE_FALSE(query);
    CHECK_MESSAGE(query.error().what.contains(says), query.error().what);
    CHECK(query.error().code == Errc::invalid);
  }
  for (const char* pattern : {"foo( bar", "[a-", "*", "a**", "(?<x", "\\8", "foo[ bar]"}) {
    CAPTURE(pattern);
    auto query = parse_zoekt_query(pattern);
    CHECK((!query || !search::parse_query(query->text)));
  }
  std::string deep(5'000, '(');
  CHECK_FALSE(parse_zoekt_query(deep + " foo"));
  std::string minus(5'000, '-');
  CHECK_FALSE(parse_zoekt_query(minus + "foo"));
  std::string groups;
  for (int i = 0; i < 1'000; ++i) groups += "( a ";
  CHECK_FALSE(parse_zoekt_query(groups));
}

}  // namespace warren::fleet
