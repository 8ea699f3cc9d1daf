#include "search/index/symbols.h"

#include <filesystem>
#include <fstream>

#include "proof/testkit/temp_folder.h"
#include "search/index/ctags.h"
#include "search/index/test_texts.h"

namespace warren::search {
namespace {

std::vector<std::string> found(const Segment& segment, std::string_view name) {
  std::vector<std::string> all;
  segment.find_symbols(name, [&](const Symbol& symbol) {
    all.push_back(fmt::format("{} {}:{} {} {}", symbol.name, segment.file(symbol.file).path,
                              symbol.line, symbol.kind, symbol.parent));
    return true;
  });
  return all;
}

TEST_CASE("definitions are found by their name, the exact one first" *
          doctest::test_suite("threads")) {
  auto plain =
      build({doc("a.c", "int Lease(int x) {\n  return x;\n}\n"),
             doc("b.cc", "struct Table {\n  int lease();\n};\nint Table::lease() { return 1; }\n"),
             doc("c.py", "class Lease:\n    def renew(self):\n        pass\n")});
  CHECK(!plain->has_symbols());
  auto segment = with_symbols(plain);
  REQUIRE(segment);
  REQUIRE((*segment)->has_symbols());
  CHECK(found(**segment, "Lease") == std::vector<std::string>{"Lease a.c:1 function ",
                                                              "Lease c.py:1 class ",
                                                              "lease b.cc:4 function Table"});
  CHECK(found(**segment, "lease")[0] == "lease b.cc:4 function Table");
  CHECK(found(**segment, "renew") == std::vector<std::string>{"renew c.py:2 member Lease"});
  CHECK(found(**segment, "leas").empty());
  CHECK((*segment)->memory().symbols > 0);
  std::size_t count = 0;
  (*segment)->each_symbol([&](const Symbol&) { return ++count < 3; });
  CHECK(count == 3);
  TempFolder folder;
  auto path = (folder.path() / "s").string();
  REQUIRE((*segment)->save(path));
  auto loaded = Segment::load(path);
  REQUIRE(loaded);
  CHECK(found(**loaded, "lease") == found(**segment, "lease"));
}

TEST_CASE("how much of the search for definitions is done is told, on the thread of its caller") {
  std::vector<Document> documents;
  for (int i = 0; i < 200; ++i)
    documents.push_back(doc(fmt::format("f{}.c", i), fmt::format("int f{}(void) {{}}\n", i)));
  Parts parts;
  SymbolTerms terms{.threads = 1, .progress = parts.taker()};
  auto segment = with_symbols(build(std::move(documents)), terms);
  REQUIRE(segment);
  CHECK((*segment)->has_symbols());
  parts.check_that_they_rise();
}

TEST_CASE("without ctags a segment stays as it is") {
  auto plain = build({doc("a.c", "int f(void);\n")});
  for (const auto* program : {"no-such-program", "true", "cat", "yes"}) {
    auto same = with_symbols(plain, {.program = program, .per_file = 300ms});
    REQUIRE(same);
    CHECK(*same == plain);
  }
}

TEST_CASE("a file that ctags does not survive costs only its own symbols") {
  TempFolder folder;
  auto script = folder.path() / "ctags";
  std::ofstream(script) << R"(#!/usr/bin/env python3
import sys, json, time
out = sys.stdout
print('{"_type": "program", "name": "Universal Ctags"}', flush=True)
while True:
    line = sys.stdin.buffer.readline()
    if not line: break
    ask = json.loads(line)
    sys.stdin.buffer.read(ask["size"])
    name = ask["filename"]
    if name == "sleep.c": time.sleep(60)
    if name == "die.c": sys.exit(1)
    if name == "flood.c":
        while True: print('{"_type": "tag", "name": "x", "line": 1, "kind": "k"}')
    if name == "line.c":
        while True: out.write("x" * 4096)
    if name == "junk.c": print("[1]", flush=True)
    print('{"_type": "tag", "name": "in_' + name[:-2] + '", "line": 1, "kind": "function"}')
    print('{"_type": "completed", "command": "generate-tags"}', flush=True)
)";
  std::filesystem::permissions(script, std::filesystem::perms::all);
  std::vector<Document> documents;
  for (const auto* name : {"a", "sleep", "b", "die", "c", "flood", "line", "junk", "dd"})
    documents.push_back(doc(std::string(name) + ".c", "int x;\n"));
  auto segment = with_symbols(build(documents), {.program = script.string(), .per_file = 1500ms});
  REQUIRE(segment);
  for (const auto* name : {"in_a", "in_b", "in_c", "in_dd"}) {
    CAPTURE(name);
    CHECK(found(**segment, name).size() == 1);
  }
  CHECK(found(**segment, "x").empty());
}

TEST_CASE("hostile sources and odd names do not hurt") {
  std::mt19937 random(7);
  auto documents = random_documents(random, 40, 20'000);
  documents.push_back(doc("a\"\\\n\xff.c", "int quoted(void) { return 1; }\n"));
  documents.push_back(doc("deep.c", std::string(200'000, '(')));
  documents.push_back(doc("deep.js", std::string(200'000, '{')));
  documents.push_back(doc("deep.json", std::string(200'000, '[')));
  auto segment = with_symbols(build(documents));
  REQUIRE(segment);
  CHECK(found(**segment, "quoted").size() == 1);
}

TEST_CASE("lines of ctags are read, and what is no such line is refused") {
  auto line = parse_tag_line(
      R"({"_type": "tag", "name": "a\"b\\\/", "file": true, "line": 12, "kind": "function", "scope": "S"})");
  REQUIRE(line);
  CHECK(line->tag.name == "a\"b\\/");
  CHECK(line->tag.line == 12);
  CHECK(line->tag.parent == "S");
  for (const auto* bad :
       {"", "{", "{}", "[]", "{\"a\"", "{\"a\":", "{\"a\": \"", "{\"a\": \"\\", "{\"a\": 1"})
    CHECK(!parse_tag_line(bad));
}

}  // namespace
}  // namespace warren::search
