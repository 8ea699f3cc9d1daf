#include "services/board/watch/text.h"

#include <doctest/doctest.h>

#include <string>

using namespace warren::watch;

TEST_CASE("a glob matches as Go's path.Match does") {
  struct Case {
    const char *pattern, *text;
    bool fits;
  };
  for (auto [pattern, text, fits] : {Case{"abc", "abc", true},
                                     {"*", "abc", true},
                                     {"*c", "abc", true},
                                     {"a*", "a", true},
                                     {"a*", "abc", true},
                                     {"a*", "ab/c", false},
                                     {"a*/b", "abc/b", true},
                                     {"a*/b", "a/c/b", false},
                                     {"a*b*c*d*e*/f", "axbxcxdxe/f", true},
                                     {"a*b*c*d*e*/f", "axbxcxdxexxx/fff", false},
                                     {"a*b?c*x", "abxbbxdbxebxczzx", true},
                                     {"a*b?c*x", "abxbbxdbxebxczzy", false},
                                     {"ab[c]", "abc", true},
                                     {"ab[b-d]", "abc", true},
                                     {"ab[e-g]", "abc", false},
                                     {"ab[^c]", "abc", false},
                                     {"ab[^e-g]", "abc", true},
                                     {"a\\*b", "a*b", true},
                                     {"a\\*b", "ab", false},
                                     {"a?b", "a☺b", true},
                                     {"a[^a]b", "a☺b", true},
                                     {"a???b", "a☺b", false},
                                     {"[a-ζ]*", "α", true},
                                     {"*[a-ζ]", "A", false},
                                     {"a?b", "a/b", false},
                                     {"a*b", "a/b", false},
                                     {"[\\]a]", "]", true},
                                     {"[\\-]", "-", true},
                                     {"[x\\-]", "x", true},
                                     {"[x\\-]", "z", false},
                                     {"", "", true},
                                     {"", "a", false},
                                     {"*x", "xxx", true},
                                     {"Code*", "CodeCommit", true},
                                     {"code*", "CodeCommit", false},
                                     {"**", "abc", true}})
    CHECK_MESSAGE(matches(pattern, text) == fits, pattern << " on " << text);
}

TEST_CASE("a malformed glob matches nothing, not even itself") {
  for (auto pattern : {"[]a]", "[-]", "[x-]", "[-x]", "[a-b-c]", "[", "[^", "[^bc", "a[", "\\",
                       "a\\", "[a", "[a\\"}) {
    CAPTURE(pattern);
    CHECK(!is_pattern(pattern));
    CHECK(!matches(pattern, pattern));
    CHECK(!matches(pattern, "a"));
  }
  CHECK(is_pattern("*[a-z]?\\["));
}

TEST_CASE("a long glob takes time in proportion, not exponentially") {
  std::string pattern, text(5000, 'a');
  for (int i = 0; i < 30; ++i) pattern += "*a";
  CHECK(!matches(pattern + "b", text));
}

TEST_CASE("text is cut between letters, and columns are counted, not bytes") {
  CHECK(cut("abcdef", 6) == "abcdef");
  CHECK(cut("abcdefg", 6) == "abc...");
  CHECK(cut("äöüäöüä", 6) == "äöü...");
  CHECK(cut("日本語日本語", 12) == "日本語日本語");
  CHECK(cut("日本語日本語", 11) == "日本語日...");
  CHECK(cut("日本語日本語", 10) == "日本語...");
  CHECK(width("日本") == 4);
  CHECK(width("e\u0301") == 1);
  CHECK(padded("日", 4) == "日  ");
  CHECK(padded("abcdef", 4) == "abcdef");
  for (std::size_t columns = 3; columns < 20; ++columns)
    CHECK(width(cut("🎉é日x🎉é日x🎉é日x🎉é日x", columns)) <= columns);
}

TEST_CASE("text cannot move the cursor, end a line or break the encoding") {
  CHECK(shown("a\nb\x1b[31mc\x7f") == "a?b?[31mc?");
  CHECK(shown("\xc2\x9b"
              "x") == "?x");
  CHECK(shown("a\xff"
              "b") == "a\uFFFDb");
  CHECK(shown("a\u202eb") == "a?b");
  CHECK(shown("grün 日本 🎉") == "grün 日本 🎉");
}

TEST_CASE("the first line is the first that says something") {
  CHECK(first_line("\n  \t\n  hello world \r\nmore") == "hello world");
  CHECK(first_line(" \n \n").empty());
  CHECK(first_line("").empty());
}
