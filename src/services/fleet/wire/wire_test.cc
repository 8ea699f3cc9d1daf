#include "services/fleet/wire/wire.h"

#include <doctest/doctest.h>

namespace warren::fleet {

TEST_CASE("a request is read back as it was written") {
  SearchAsk ask;
  ask.query = "foo \"bar\" file:\\.c$";
  ask.repos = {"h/a", "h/b"};
  ask.rows = rows_text({{"h/a#0", {3, 17}}, {"h/b@c#1", {0, 1'794'963'235'434'649}}});
  ask.files = 7;
  ask.context = 2;
  ask.collapses = true;
  ask.timeout = 250ms;
  auto back = parse_ask(to_json(ask));
  REQUIRE(back);
  CHECK(to_json(*back) == to_json(ask));
  auto rows = parse_rows_text(back->rows);
  REQUIRE(rows);
  REQUIRE(rows->size() == 2);
  CHECK(rows->at(1).key == "h/b@c#1");
  CHECK(rows->at(1).epoch == FencingToken{0, 1'794'963'235'434'649});
  CHECK(parse_rows_text("")->empty());
  for (const char* wrong : {"h/a#0", "h/a#0@", "h/a#0@3", "h/a#0@3-17  h/b#0@3-18"})
    CHECK_FALSE(parse_rows_text(wrong));
  auto terms = terms_of(*back, Clock::time_point(10s));
  CHECK(terms.deadline == Clock::time_point(10s) + 250ms);
  CHECK(terms.repos.contains("h/a"));
  CHECK_FALSE(terms.repos.contains("h/c"));
}

TEST_CASE("a query is read back to the last byte, whatever it is made of") {
  SearchAsk ask;
  ask.query = "caf\xe9 \xff";
  auto back = parse_ask(to_json(ask));
  REQUIRE(back);
  CHECK(back->query == ask.query);
  CHECK(parse_error(error_json({Errc::invalid, "column 1"})) == "column 1");
  CHECK_FALSE(parse_error("nothing").empty());
}

TEST_CASE("an empty list of repositories finds nothing, and no list means all") {
  auto none = parse_ask(R"({"q":"x","repos":[]})");
  REQUIRE(none);
  CHECK_FALSE(terms_of(*none, {}).repos.contains("h/a"));
  auto all = parse_ask(R"({"q":"x"})");
  REQUIRE(all);
  CHECK(terms_of(*all, {}).repos.is_all());
}

TEST_CASE("what is not a request is refused, with the member that is wrong") {
  CHECK(parse_ask(R"({"q":1})").error().what.contains("\"q\""));
  CHECK(parse_ask(R"({"q":"x","limit":"many"})").error().what.contains("limit"));
  CHECK(parse_ask(R"({"q":"x","rows":[{"key":"a","epoch":"3"}]})").error().what.contains("rows"));
  for (auto text : {"", "[]", "null", "{", R"({})", R"({"q":""})", R"({"q":"x","repos":"h/a"})",
                    R"({"q":"x","limit":-1})", R"({"q":"x","repos":[[]]})",
                    R"({"q":"x","repos":null})", R"({"q":"x","repo_ids":null})",
                    R"({"q":"x","repo_ids":["a"]})", R"({"q":"x","fork":"yes"})"})
    CHECK_MESSAGE(!parse_ask(text), text);
  CHECK_FALSE(parse_ask(std::string(most_ask_bytes + 1, ' ')));
  std::string deep(100'000, '[');
  CHECK_FALSE(parse_ask(deep));
}

TEST_CASE("bounds of a request are kept within what a router does") {
  auto ask = parse_ask(R"({"q":"x","limit":99999999,"context":1000,"timeout_ms":99999999})");
  REQUIRE(ask);
  CHECK(ask->files == 10'000);
  CHECK(ask->context == 50);
  CHECK(ask->timeout == 60s);
}

TEST_CASE("a part is read back to the last bit of its scores and to the last byte of its lines") {
  Part part;
  search::FileMatch file;
  file.repo = "h/a";
  file.path = "odd\xff name";
  file.score = 0.1 + 0.2;
  file.match_count = 3;
  file.depths = 5;
  file.blob = "00ff";
  search::LineMatch line;
  line.line = 7;
  line.text = "caf\xe9 \xe2\x98\x83";
  line.ranges = {{1, 3}, {4, 5}};
  line.before = {"fine", "\x80"};
  line.is_cut = true;
  file.lines.push_back(line);
  file.same = {{"h/b", "other"}};
  part.answer.files.push_back(file);
  part.answer.depths = {{1, 2, 3, true, false}};
  part.answer.versions = ~std::uint64_t{0};
  part.answer.is_complete = false;
  part.answer.why_incomplete = "time";
  part.missing = {{"h/c", "moved", "", "now at n2"}};
  auto back = parse_part(to_json(part));
  REQUIRE(back);
  const auto& got = back->answer.files.at(0);
  CHECK(got.path == file.path);
  CHECK(got.score == file.score);
  CHECK(got.depths == 5);
  CHECK(got.lines.at(0).text == line.text);
  CHECK(got.lines[0].before == line.before);
  CHECK(got.lines[0].ranges.at(1).end == 5);
  CHECK(got.lines[0].is_cut);
  CHECK(got.same == file.same);
  CHECK(back->answer.versions == part.answer.versions);
  CHECK(back->answer.depths.at(0).is_cut);
  CHECK(back->missing == part.missing);
  CHECK_FALSE(parse_part(R"({"files":[{"lines":7}]})"));
  CHECK_FALSE(parse_part(R"({"files":[{"path_base64":"*"}]})"));
}

TEST_CASE("files that are found early are lines, and so is the part that decides") {
  search::FileMatch file;
  file.repo = "h/a";
  file.path = "b.c";
  file.score = 0.1 + 0.2;
  file.lines.emplace_back();
  file.lines[0].offset = 1u << 20;
  auto line = found_line(file);
  CHECK(line.ends_with('\n'));
  CHECK(line.find('\n') + 1 == line.size());
  auto back = parse_node_line(line);
  REQUIRE(back);
  REQUIRE(back->file);
  CHECK_FALSE(back->part);
  CHECK(back->file->score == file.score);
  CHECK(back->file->lines.at(0).offset == 1u << 20);
  Part part;
  part.answer.files.push_back(file);
  part.missing = {{"h/c", "warming", "reading", "", 0.5, 1500ms}};
  back = parse_node_line(part_line(part));
  REQUIRE(back);
  REQUIRE(back->part);
  CHECK(back->part->missing == part.missing);
  for (auto wrong : {"", "{}", R"({"type":"else"})", R"({"type":"part","files":7})", "[1]"})
    CHECK_MESSAGE(!parse_node_line(wrong), wrong);
}

TEST_CASE("an answer with something missing does not say that it is complete") {
  search::Answer answer;
  std::vector<Missing> missing{{"h/a", "warming", "indexing", ""}}, read;
  auto text = answer_json(answer, missing, 1500us);
  CHECK(text.contains(R"("complete":false)"));
  CHECK(text.contains(R"("took_ms":1.5E0)"));
  auto back = parse_answer(text, read);
  REQUIRE(back);
  CHECK_FALSE(back->is_complete);
  CHECK(read == missing);
  CHECK(answer_json(answer, {}, 0ns).contains(R"("complete":true)"));
  CHECK(answer_json(answer, {}, 0ns).contains(R"("notes":[])"));
  answer.notes = {"no language \"a\xff\""};
  auto with_notes = R"("notes":["no language \"a)"
                    "\xef\xbf\xbd"
                    R"(\""])";
  CHECK(answer_json(answer, {}, 0ns).contains(with_notes));
  CHECK(summary_line(answer, {}, 0ns, {}).contains(with_notes));
}

}  // namespace warren::fleet
