#include "services/fleet/wire/files.h"

#include <doctest/doctest.h>

namespace warren::fleet {

TEST_CASE("a request for a file is read back as it was written, whatever is in its path") {
  FileAsk ask{.repo = "", .path = "a dir/odd&na=me#%\xff.c"};
  ask.commit = "0123abc";
  ask.branch = "feature/x y";
  ask.first_line = 7;
  ask.last_line = 9;
  ask.most_bytes = 1234;
  AskedRow row{"h/a&b#0", {3, 17}};
  auto query = to_query(row) + "&" + to_query(ask);
  auto back = parse_file_ask(query);
  REQUIRE(back);
  CHECK(back->path == ask.path);
  CHECK(back->branch == ask.branch);
  CHECK(back->commit == ask.commit);
  CHECK(back->first_line == 7);
  CHECK(back->last_line == 9);
  CHECK(back->most_bytes == 1234);
  auto same = parse_row(query);
  REQUIRE(same);
  CHECK(same->key == row.key);
  CHECK(same->epoch == row.epoch);
}

TEST_CASE("ranges of lines are one line, or from a line to another") {
  auto lines_of = [](const char* text) {
    auto ask = parse_file_ask(fmt::format("path=a&lines={}", text));
    return ask ? std::pair(ask->first_line, ask->last_line)
               : std::pair<std::uint64_t, std::uint64_t>();
  };
  using Lines = std::pair<std::uint64_t, std::uint64_t>;
  CHECK(lines_of("10-20") == Lines(10, 20));
  CHECK(lines_of("10-") == Lines(10, UINT64_MAX));
  CHECK(lines_of("-20") == Lines(1, 20));
  CHECK(lines_of("7") == Lines(7, 7));
  for (auto wrong : {"-", "0", "0-3", "5-4", "a", "1-b", "1-2-3", "%zz", "99999999999999999999"})
    CHECK_MESSAGE(lines_of(wrong) == Lines(), wrong);
}

TEST_CASE("what is not a request for a file is refused with the parameter that is wrong") {
  CHECK(parse_file_ask("repo=a").error().what.contains("path"));
  CHECK(parse_file_ask("path=a&path=b").error().what.contains("path"));
  CHECK(parse_file_ask("path=%f").error().what.contains("path"));
  CHECK(parse_file_ask("path=a&bytes=x").error().what.contains("bytes"));
  CHECK(parse_file_ask("path=a&bytes=99999999")->most_bytes == most_file_bytes);
  CHECK_FALSE(parse_row("key=a"));
  CHECK_FALSE(parse_row("key=a&epoch=1"));
  CHECK_FALSE(parse_skipped_ask("limit=many"));
  CHECK(parse_skipped_ask("limit=0")->limit == 1);
}

TEST_CASE("the text of a file is read back to the last byte") {
  FileText file{.repo = "h/a", .path = "b\xff"};
  file.text = "caf\xe9\n";
  file.commit = "abc";
  file.size = 99;
  file.lines = 12;
  file.first_line = 3;
  file.last_line = 3;
  file.is_cut = true;
  auto back = parse_file_text(to_json(file));
  REQUIRE(back);
  CHECK(back->path == file.path);
  CHECK(back->text == file.text);
  CHECK(back->size == 99);
  CHECK(back->last_line == 3);
  CHECK(back->is_cut);
  CHECK_FALSE(parse_file_text("[]"));
  CHECK_FALSE(parse_file_text(R"({"text":7})"));
}

}  // namespace warren::fleet
