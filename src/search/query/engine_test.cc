#include <doctest/doctest.h>

#include <map>
#include <thread>

#include "search/index/symbols.h"
#include "search/index/warm.h"
#include "search/query/reference.h"
#include "search/query/search.h"
#include "search/text/random_regex.h"
#include "search/text/rounds.h"

namespace warren::search {
namespace {

std::vector<Document> random_corpus(RandomRegex& random, std::size_t bytes) {
  std::vector<Document> documents;
  std::size_t size = 0;
  for (int i = 0; size < bytes; ++i) {
    Document document;
    document.path = "src/" + random.line(3) + std::to_string(i) + (i % 3 == 0 ? "/foo" : "/lock");
    std::erase_if(document.path, [](char c) { return c < ' '; });
    auto kind = random.below(12);
    for (auto lines = kind == 0 ? 0 : random.below(250); lines > 0; --lines) {
      document.text += random.line(kind == 1 ? 400 : 40);
      if (kind == 2) document.text += "\xc3\xa9";
      if (kind == 3 && random.below(20) == 0) document.text += "\xff\xfe";
      if (kind == 4 && random.below(20) == 0) document.text += '\0';
      if (kind == 5 && random.below(60) == 0) document.text.append(100'000, 'x').append("foo");
      document.text += kind == 6 ? "\r\n" : "\n";
    }
    if (random.below(4) == 0 && !document.text.empty()) document.text.pop_back();
    size += document.text.size();
    documents.push_back(std::move(document));
  }
  return documents;
}

std::shared_ptr<const Segment> built(const std::vector<Document>& documents, bool with_index) {
  SegmentBuilder builder({.threads = 1, .with_index = with_index, .block_bytes = 512});
  for (auto document : documents) REQUIRE(builder.add(std::move(document)));
  auto segment = builder.build({.name = "corpus", .version = "1", .branches = {}, .skipped = {}});
  REQUIRE(segment);
  REQUIRE((*segment)->has_index() == with_index);
  return *segment;
}

QueryPtr random_pattern(RandomRegex& random) {
  auto query = std::make_unique<Query>();
  query->kind = Query::Kind::pattern;
  auto& pattern = query->pattern;
  pattern.is_regex = random.below(2) == 0;
  pattern.text = random.regex(1);
  if (pattern.is_regex && random.below(8) == 0) pattern.text += "\\n" + random.regex(1);
  if (!pattern.is_regex) {
    pattern.text = random.line(8);
    if (pattern.text.empty()) pattern.text = "foo";
  }
  pattern.ignores_case = random.below(2) == 0;
  constexpr Field fields[] = {Field::any, Field::any, Field::content, Field::path};
  pattern.field = fields[random.below(4)];
  return query;
}

QueryPtr random_query(RandomRegex& random, int depth) {
  if (depth == 0 || random.below(3) == 0) return random_pattern(random);
  auto query = std::make_unique<Query>();
  constexpr Query::Kind kinds[] = {Query::Kind::both, Query::Kind::both, Query::Kind::either,
                                   Query::Kind::neither};
  query->kind = kinds[random.below(4)];
  auto count = query->kind == Query::Kind::neither ? 1 : 2 + random.below(2);
  for (; count > 0; --count) query->parts.push_back(random_query(random, depth - 1));
  return query;
}

SearchTerms everything() {
  return {.most_matches = 0,
          .most_files = SIZE_MAX,
          .lines_per_file = SIZE_MAX,
          .answer_bytes = SIZE_MAX};
}

Reference::Lines lines_of(const Answer& answer) {
  Reference::Lines lines;
  for (const auto& file : answer.files) {
    auto& mine = lines[file.path];
    for (const auto& line : file.lines) mine.insert(line.line);
  }
  return lines;
}

std::map<std::string, std::uint64_t> counts_of(const Answer& answer) {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& file : answer.files) {
    CHECK(file.lines.empty());
    counts[file.path] = file.line_count;
  }
  return counts;
}

std::map<std::string, std::uint64_t> counts_of(const Reference::Lines& lines) {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [path, numbers] : lines) counts[path] = numbers.size();
  return counts;
}

Result<Answer> ask(const std::shared_ptr<const Segment>& segment, const ParsedQuery& query,
                   const SearchTerms& terms) {
  return search(std::span(&segment, 1), query, terms);
}

Answer asked(const std::shared_ptr<const Segment>& segment, std::string_view text,
             const SearchTerms& terms = {}) {
  auto query = parse_query(text);
  REQUIRE_MESSAGE(query, (query ? "" : query.error().what));
  auto answer = ask(segment, *query, terms);
  REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().what));
  return std::move(*answer);
}

TEST_CASE("files and lines are those that RE2 finds line by line, for any query") {
  RandomRegex random(31);
  int compared = 0, found = 0;
  for (int corpus = 0; corpus < 2; ++corpus) {
    auto documents = random_corpus(random, 600'000);
    Reference reference(documents);
    auto indexed = built(documents, true), scanned = built(documents, false);
    auto warm = cooled(*indexed, {});
    REQUIRE(warm);
    for (int round = 0; round < rounds(120); ++round) {
      ParsedQuery query;
      query.root = random_query(random, 2);
      CAPTURE(to_string(*query.root));
      auto terms = everything(), counts = everything();
      terms.threads = 1 + static_cast<int>(random.below(2));
      counts.counts_lines = true;
      auto answer = ask(indexed, query, terms);
      if (!answer) continue;  // it would list everything
      ++compared;
      auto expected = reference.answer(*query.root);
      found += !expected.empty();
      CHECK(answer->is_complete);
      CHECK(answer->file_count == expected.size());
      REQUIRE(lines_of(*answer) == expected);
      for (const auto& other : {scanned, *warm}) {
        auto same = ask(other, query, terms);
        REQUIRE(same);
        REQUIRE(lines_of(*same) == expected);
        REQUIRE(same->match_count == answer->match_count);
        auto counted = ask(other, query, counts);
        REQUIRE(counted);
        REQUIRE(counts_of(*counted) == counts_of(expected));
      }
    }
  }
  CHECK(compared > rounds(150));
  CHECK(found > rounds(50));
}

std::shared_ptr<const Segment> small(std::vector<std::pair<std::string, std::string>> files) {
  std::vector<Document> documents;
  for (auto& [path, text] : files)
    documents.push_back({.path = path, .text = text, .blob = {}, .branches = {}});
  return built(documents, false);
}

TEST_CASE("a line is shown with its number, its ranges and its neighbours") {
  auto segment = small({{"a.c", "one\ntwo foo and foo\r\nthree\nfour\n"}});
  auto answer = asked(segment, "foo", {.context_lines = 1});
  REQUIRE(answer.files.size() == 1);
  const auto& file = answer.files[0];
  CHECK(file.repo == "corpus");
  CHECK(file.path == "a.c");
  CHECK(file.language == "C");
  CHECK(file.match_count == 2);
  REQUIRE(file.lines.size() == 1);
  const auto& line = file.lines[0];
  CHECK(line.line == 2);
  CHECK(line.text == "two foo and foo");
  REQUIRE(line.ranges.size() == 2);
  CHECK(line.ranges[1].begin == 12);
  CHECK(line.ranges[1].end == 15);
  CHECK(line.before == std::vector<std::string>{"one"});
  CHECK(line.after == std::vector<std::string>{"three"});
}

TEST_CASE("a match across lines is shown in each of them") {
  auto segment = small({{"a.c", "x {\n  return 0;\n}\ny\n"}});
  auto answer = asked(segment, "{\\n\\s*return\\s0;\\n}");
  REQUIRE(answer.files.size() == 1);
  REQUIRE(answer.files[0].lines.size() == 3);
  CHECK(answer.files[0].lines[2].line == 3);
  CHECK(answer.files[0].lines[1].ranges[0].end == 11);
}

TEST_CASE("a long line is cut around the match, between characters, and says so") {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "é";
  auto segment = small({{"a.js", text + "needle" + text}});
  auto answer = asked(segment, "needle", {.line_bytes = 101});
  const auto& line = answer.files.at(0).lines.at(0);
  CHECK(line.is_cut);
  CHECK(line.text.size() <= 101);
  CHECK(line.text.size() > 90);
  CHECK(line.text.starts_with("é"));
  CHECK(line.text.substr(line.ranges.at(0).begin, 6) == "needle");
}

TEST_CASE("whole words come before parts, code before tests, file names first") {
  auto segment = small({{"z.c", "int lock;\n"},
                        {"a.c", "int mylocks;\n"},
                        {"tests/b_test.c", "int lock;\n"},
                        {"lock.c", "nothing\n"}});
  auto answer = asked(segment, "lock", {.explains = true});
  std::vector<std::string> paths;
  for (const auto& file : answer.files) paths.push_back(file.path);
  CHECK(paths == std::vector<std::string>{"lock.c", "z.c", "tests/b_test.c", "a.c"});
  CHECK(answer.files[0].explanation.at(0) == "5500 the file is named lock");
  CHECK(answer.files[1].explanation.at(0) == "500 a whole word: lock");
  CHECK(answer.files[0].path_ranges.size() == 1);
}

TEST_CASE("pages follow one another without gap or repetition, and a cursor fits one query") {
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 0; i < 95; ++i)
    files.emplace_back("d/f" + std::to_string(i) + ".c", i % 2 == 0 ? "foo\n" : "foo foo xfoo\n");
  auto segment = small(files);
  auto whole = asked(segment, "foo", everything());
  std::vector<std::string> all, paged;
  for (const auto& file : whole.files) all.push_back(file.path);
  SearchTerms terms{.most_files = 10};
  int pages = 0;
  do {
    auto page = asked(segment, "foo", terms);
    CHECK(page.file_count == 95);
    CHECK(page.is_complete);
    for (const auto& file : page.files) paged.push_back(file.path);
    terms.after = page.next;
    ++pages;
  } while (!terms.after.empty());
  CHECK(paged == all);
  CHECK(pages == 10);

  terms.after = asked(segment, "foo", {.most_files = 10}).next;
  auto other = parse_query("fo+");
  CHECK(ask(segment, *other, terms).error().what == "the cursor is of another query");
  auto same = parse_query("foo");
  terms.after[5] = terms.after[5] == '0' ? '1' : '0';
  CHECK(ask(segment, *same, terms).error().what == "the cursor is damaged");
  terms.after = "nonsense";
  CHECK(ask(segment, *same, terms).error().code == Errc::invalid);
}

TEST_CASE("limits hold, are told, and are the same for any number of threads" *
          doctest::test_suite("threads")) {
  RandomRegex random(5);
  auto segment = built(random_corpus(random, 1'500'000), true);
  auto terms = everything();
  auto all = asked(segment, "foo", terms);
  REQUIRE(all.match_count > 2000);
  terms.most_matches = 500;
  auto some = asked(segment, "foo", terms);
  CHECK(!some.is_complete);
  CHECK(some.why_incomplete == "matches");
  CHECK(some.match_count >= 500);
  CHECK(some.match_count < all.match_count);
  CHECK(some.estimated_matches > all.match_count / 3);
  CHECK(some.estimated_matches < all.match_count * 3);
  for (int threads : {2, 4}) {
    terms.threads = threads;
    auto again = asked(segment, "foo", terms);
    CHECK(lines_of(again) == lines_of(some));
    CHECK(again.match_count == some.match_count);
  }
  auto bytes = asked(segment, "foo", {.most_matches = 0, .answer_bytes = 20'000});
  CHECK(bytes.why_incomplete == "bytes");
  CHECK(!bytes.next.empty());
  CHECK(bytes.match_count == all.match_count);
  auto lines = asked(segment, "foo", {.most_matches = 0, .lines_per_file = 3});
  for (const auto& file : lines.files) CHECK(file.lines.size() <= 3);
  auto few = asked(segment, "foo count:3");
  CHECK(few.match_count < 100);
  CHECK(few.estimated_matches > all.match_count / 4);
  CHECK(few.estimated_matches < all.match_count * 4);
  CHECK(asked(segment, "foo count:100").match_count < 500);
}

TEST_CASE("a search in slices, by different threads, says the same as in one go" *
          doctest::test_suite("threads")) {
  std::vector<Document> documents(1000);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    documents[i].path = std::to_string(i) + ".c";
    documents[i].text = "a lock\nfoo lock\n" + documents[i].path + "\n";
  }
  auto segment = built(documents, false);
  for (std::string_view text : {"lock count:all", "foo count:800", "fo+.*k"}) {
    auto query = parse_query(text);
    REQUIRE(query);
    for (int threads : {1, 3}) {
      auto whole = search({&segment, 1}, *query, {.threads = threads});
      REQUIRE(whole);
      Search search({segment}, *query, {.threads = threads});
      int slices = 1;
      for (bool is_done = false; !is_done; slices += !is_done)
        std::jthread([&] { is_done = search.run(Clock::now()); }).join();
      auto answer = search.answer();
      REQUIRE(answer);
      CHECK(answer->match_count == whole->match_count);
      CHECK(answer->is_complete == whole->is_complete);
      CHECK(lines_of(*answer) == lines_of(*whole));
      CHECK(slices > 2);
    }
  }
  auto query = parse_query("lock count:all");
  auto deadline = Clock::now() + 1ms;
  Search late({segment}, *query, {.deadline = deadline});
  late.run(Clock::now());
  std::this_thread::sleep_until(deadline);  // the time between two slices counts
  CHECK(late.run(Clock::time_point::max()));
  auto answer = late.answer();
  REQUIRE(answer);
  CHECK(answer->why_incomplete == "time");
}

TEST_CASE("a search ends when its time is over or nobody wants it any more") {
  RandomRegex random(6);
  auto segment = built(random_corpus(random, 8'000'000), false);
  auto query = parse_query("(a|b)[^z]*(c|d).*_.*0");
  auto terms = everything();
  auto began = Clock::now();
  REQUIRE(ask(segment, *query, terms));
  auto whole = Clock::now() - began;
  terms.deadline = Clock::now() + whole / 10;
  auto late = ask(segment, *query, terms);
  auto over = Clock::now() - terms.deadline;
  REQUIRE(late);
  CHECK(!late->is_complete);
  CHECK(late->why_incomplete == "time");
  CHECK(over < 5s);  // on a loaded machine; see the benchmark
  CHECK(late->estimated_matches >= late->match_count);
  std::atomic<bool> is_cancelled = true;
  terms.deadline = Clock::time_point::max();
  terms.cancelled = &is_cancelled;
  CHECK(ask(segment, *query, terms)->why_incomplete == "cancelled");
}

TEST_CASE("repositories, languages and branches are chosen before anything is read") {
  auto make = [](std::string name, std::vector<Document> documents) {
    SegmentBuilder builder({.threads = 1});
    for (auto& document : documents) REQUIRE(builder.add(std::move(document)));
    auto made = builder.build(
        {.name = std::move(name), .version = "1", .branches = {"main", "next"}, .skipped = {}});
    REQUIRE(made);
    return *made;
  };
  std::vector<std::shared_ptr<const Segment>> segments{
      make("org/one", {{"a.c", "foo\n", "", {0}}, {"b.py", "foo\n", "", {0, 1}}}),
      make("org/two", {{"c.go", "foo\n", "", {1}}})};
  auto found = [&](std::string_view text) {
    auto query = parse_query(text);
    REQUIRE(query);
    auto answer = search(segments, *query, {});
    REQUIRE(answer);
    std::string all;
    for (const auto& file : answer->files) all += file.repo + ":" + file.path + " ";
    return all;
  };
  CHECK(found("foo") == "org/one:a.c org/one:b.py org/two:c.go ");
  CHECK(found("foo repo:two") == "org/two:c.go ");
  CHECK(found("foo -repo:two") == "org/one:a.c org/one:b.py ");
  CHECK(found("foo lang:python") == "org/one:b.py ");
  CHECK(found("foo -lang:py") == "org/one:a.c org/two:c.go ");
  CHECK(found("foo branch:next") == "org/one:b.py org/two:c.go ");
  CHECK(found("repo:one") == "org/one:a.c org/one:b.py ");
  CHECK(found("foo select:repo") == "org/one: org/two: ");
  CHECK(found("file:*.go") == "org/two:c.go ");
  CHECK(found("foo (repo:two or lang:c)") == "org/one:a.c org/two:c.go ");
  CHECK(found("a.c select:path") == "org/one:a.c ");
}

TEST_CASE("a definition comes first, and sym: finds definitions alone") {
  auto plain = small({{"a.c", "int use(void) { return lease(1); }\n"},
                      {"lease.txt", "lease\n"},
                      {"z/deep/z.c", "/* lease */\n\nint lease(int x) {\n  return x;\n}\n"},
                      {"z/deep/y.c", "int release_all(void) {\n  return 0;\n}\n"}});
  auto without = asked(plain, "sym:lease");
  CHECK(without.files.empty());
  CHECK(without.why_incomplete == "symbols");
  auto segment = with_symbols(plain);
  REQUIRE(segment);
  REQUIRE((*segment)->has_symbols());
  auto answer = asked(*segment, "lease", {.most_matches = 1, .explains = true});
  CHECK(answer.files.at(0).path == "z/deep/z.c");
  CHECK(answer.files[0].explanation.at(0) == "7090 the definition of lease (function)");
  CHECK(asked(*segment, "lease").file_count == 4);
  auto symbols = asked(*segment, "sym:lease");
  CHECK(symbols.is_complete);
  REQUIRE(symbols.files.size() == 2);
  CHECK(symbols.files[0].path == "z/deep/z.c");
  REQUIRE(symbols.files[0].lines.size() == 1);
  CHECK(symbols.files[0].lines[0].line == 3);
  CHECK(symbols.files[0].lines[0].ranges.at(0).begin == 4);
  CHECK(symbols.files[1].path == "z/deep/y.c");
  CHECK(asked(*segment, "^lease$ select:symbol").file_count == 1);
  CHECK(asked(*segment, "sym:lease -file:z.c").file_count == 1);
}

TEST_CASE("a name is found as a literal and as a regular expression alike, wherever it stands") {
  std::string text;
  for (const char* name : {"aa", "Ab", "ab", "abab", "b", "ba_ab", "zz", "zzab"})
    text += fmt::format("int {}(void) {{ return 0; }}\n", name);
  auto segment = with_symbols(small({{"a.c", text}, {"b.c", "int ab;\n" + text}}));
  REQUIRE(segment);
  auto lines = [&](const std::string& query) {
    std::map<std::string, std::size_t> count;
    for (const auto& file : asked(*segment, query).files) count[file.path] = file.lines.size();
    return count;
  };
  for (const auto& [literal, regex] : std::vector<std::pair<std::string, std::string>>{
           {"ab", "a(b)+"}, {"aa", "a(a)"}, {"zz", "z(z)"}, {"b", "(b)+"}, {"nowhere", "no.*e"}}) {
    CAPTURE(literal);
    CHECK(lines("case:yes sym:" + literal) == lines("case:yes sym:" + regex));
  }
  CHECK(lines("case:yes sym:ab") == std::map<std::string, std::size_t>{{"a.c", 4}, {"b.c", 5}});
  CHECK(lines("case:no sym:ab") == std::map<std::string, std::size_t>{{"a.c", 5}, {"b.c", 6}});
}

TEST_CASE("names are searched many at once as one by one") {
  std::string texts[3];
  for (int i = 0; i < 45'000; ++i)
    texts[i % 3] += fmt::format("int {}name_{}_of_many;\n", i % 5 ? "a" : "", i);
  auto segment = with_symbols(small({{"a.c", texts[0]}, {"b.c", texts[1]}, {"c.c", texts[2]}}));
  REQUIRE(segment);
  REQUIRE((*segment)->symbol_names().size() > 800'000);  // several pieces, and Hyperscan
  auto terms = everything();
  for (std::string regex : {"^name_1.*", "9_of_many$", "^a?name_(77|5+)_", "_[^0-9]f", "e_1x*",
                            "_2999[0-9]_", "^aname_0*1_of_many$", "\\bname_12", "nowhere.*"}) {
    CAPTURE(regex);
    auto together = asked(*segment, "case:yes count:all sym:" + regex, terms);
    // A pattern that may match a line end is searched in each name separately.
    auto alone = asked(*segment, "case:yes count:all sym:(?:" + regex + ")\\n?", terms);
    CHECK(together.match_count == alone.match_count);
    CHECK(lines_of(together) == lines_of(alone));
    CHECK((together.match_count > 0) == !regex.starts_with("nowhere"));
  }
}

TEST_CASE("a query that would list everything is refused") {
  auto segment = small({{"a.c", "foo\n"}});
  for (std::string_view text : {"", ".*", "-foo", "x*", "foo or .*", "-file:a"}) {
    CAPTURE(text);
    auto answer = ask(segment, *parse_query(text), {});
    REQUIRE(!answer);
    CHECK(answer.error().code == Errc::invalid);
  }
  CHECK(asked(segment, ".* file:a").file_count == 1);
}

TEST_CASE("any number of threads may ask at once" * doctest::test_suite("threads")) {
  RandomRegex random(9);
  auto segment = built(random_corpus(random, 700'000), true);
  const std::string_view queries[] = {"foo", "read_lock.*abc", "(?i)ab+c file:lock", "foo -bar",
                                      "a.*0x[0-9]"};
  std::vector<std::uint64_t> expected;
  for (auto text : queries) expected.push_back(asked(segment, text, everything()).match_count);
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (std::size_t j = 0; j < 10; ++j) {
        std::size_t which = (j + static_cast<std::size_t>(i)) % std::size(queries);
        auto query = parse_query(queries[which]);
        auto terms = everything();
        terms.threads = 2;
        auto answer = ask(segment, *query, terms);
        if (!answer || answer->match_count != expected[which]) ++wrong;
      }
    });
  threads.clear();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace warren::search
