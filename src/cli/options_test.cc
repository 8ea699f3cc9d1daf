// Words of a command line, and what a command reads from them.
#include <doctest/doctest.h>

#include <CLI/CLI.hpp>

#include "cli/cli.h"

namespace warren::cli {
namespace {

using Words = std::vector<std::string>;

// A command with one option of every kind.
struct Line {
  CLI::App root{"", "program"};
  CLI::App* command = nullptr;
  CLI::Option *value = nullptr, *repeated = nullptr, *checked = nullptr, *first = nullptr,
              *list = nullptr;
  Words heard;  // words that the check received
  std::string wrong;

  explicit Line(const Words& words, bool is_list_required = false) {
    root.fallthrough();
    need_command(root);
    command = add_command(root, "do", "");
    value = add_value(*command, "-v,--value", "TEXT", "", nullptr, "none");
    repeated = add_repeated(*command, "--each", "TEXT", "");
    checked = add_value(*command, "--checked", "TEXT", "", [this](std::string_view text) {
      heard.emplace_back(text);
      return Result<>(ok);
    });
    first = add_value(*command, "first", "WORD", "", nullptr);
    list = add_list(*command, "list", "WORD", "", is_list_required ? 1 : 0);
    Words all{"do"};
    all.insert(all.end(), words.begin(), words.end());
    try {
      parse_words(root, all);
    } catch (const CLI::ParseError& error) {
      wrong = error.what();
    }
  }
};

// Words that CLI11 treats as lists, ends of commands, empty values, escapes or numbers, or that it
// might.
const Words odd{"[0-9]",   "[]",    "[a,b]", "['a']",   "[^\\x00-\\x7F]",
                "++",      "{}",    "%%",    "a,b",     "\"q\"",
                "[\"q\"]", "'q'",   "=x",    "x=[1,2]", "[a",
                "a]",      "~",     ";",     "",        " ",
                "\n",      "$HOME", "\\",    "i++",     "++i",
                "-5",      "do"};

TEST_CASE("every word of a command line is read as it was typed, whatever it looks like") {
  for (const auto& word : odd) {
    CAPTURE(word);
    Line one({word});
    CHECK(one.wrong.empty());
    CHECK(value_of(*one.first) == word);

    Line among({"first", word, "more", word});
    CHECK(among.wrong.empty());
    CHECK(values_of(*among.list) == Words{word, "more", word});

    Line apart({"--value", word, "--each", word, "--each", word, "--checked", word});
    CHECK(apart.wrong.empty());
    CHECK(value_of(*apart.value) == word);
    CHECK(values_of(*apart.repeated) == Words{word, word});
    CHECK(value_of(*apart.checked) == word);
    CHECK(apart.heard == Words{word});

    Line joined({"--value=" + word, "--each=" + word, "--checked=" + word, "next"});
    CHECK(joined.wrong.empty());
    CHECK(value_of(*joined.value) == word);
    CHECK(values_of(*joined.repeated) == Words{word});
    CHECK(joined.heard == Words{word});
    CHECK(value_of(*joined.first) == "next");
  }
}

TEST_CASE("behind -- every word is one, also when the command has all that it needs") {
  auto words = odd;
  words.insert(words.end(), {"-v", "--value", "--value=x", "--help", "--", "--value="});
  for (const auto& word : words) {
    CAPTURE(word);
    Line first({"--", word, word});
    CHECK(first.wrong.empty());
    CHECK(value_of(*first.first) == word);
    CHECK(values_of(*first.list) == Words{word});
    Line later({"one", "two", "--", word}, true);
    CHECK(later.wrong.empty());
    CHECK(values_of(*later.list) == Words{"two", word});
    CHECK_FALSE(is_given(*later.value));
  }
}

TEST_CASE("an option with one value takes one, and a list that is needed is asked for") {
  Line one({"--each", "a", "b", "c"});
  CHECK(values_of(*one.repeated) == Words{"a"});
  CHECK(value_of(*one.first) == "b");
  CHECK(values_of(*one.list) == Words{"c"});
  CHECK(value_of(*one.value) == "none");
  Line last({"--value", "a", "-v", "b"});
  CHECK(value_of(*last.value) == "b");
  CHECK(Line({"a"}, true).wrong.contains("list is required"));
  Line unknown({"--valu=", "--vlaue", "++"});
  CHECK(not_understood(unknown.root) == Words{"--valu=", "--vlaue"});
}

}  // namespace
}  // namespace warren::cli
