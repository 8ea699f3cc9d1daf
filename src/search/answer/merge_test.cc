#include <doctest/doctest.h>

#include <map>
#include <random>

#include "search/index/symbols.h"
#include "search/query/search.h"

namespace warren::search {
namespace {

using Segments = std::vector<std::shared_ptr<const Segment>>;

std::shared_ptr<const Segment> repository(std::string name, std::vector<Document> documents,
                                          std::string version = "1") {
  SegmentBuilder builder({.threads = 1});
  for (auto& document : documents) REQUIRE(builder.add(std::move(document)));
  auto made = builder.build(
      {.name = std::move(name), .version = std::move(version), .branches = {}, .skipped = {}});
  REQUIRE(made);
  return *made;
}

Document file(std::string path, std::string text) {
  // An id derived from the text, as in git.
  auto blob = fmt::format("{:016x}{:024x}", std::hash<std::string>()(text), text.size());
  return {std::move(path), std::move(text), std::move(blob), {}};
}

// Repositories of very different sizes, with words that are common, rare, or in only one
// repository.
Segments repositories(unsigned seed, int count) {
  std::mt19937 random(seed);
  Segments segments;
  for (int i = 0; i < count; ++i) {
    std::vector<Document> documents;
    auto files = i % 7 == 0 ? 150 : 1 + random() % 12;
    for (std::size_t j = 0; j < files; ++j) {
      std::string text;
      for (auto lines = random() % 30; lines > 0; --lines) {
        text += "return value;\n";
        if (random() % 8 == 0) text += "int lock_it(struct lock *lock);\n";
        if (random() % 300 == 0) text += "rare word\n";
      }
      if (random() % 10 == 0) text = "the same everywhere: return lock\n";
      documents.push_back(
          file(fmt::format("{}/f{}.c", random() % 5 == 0 ? "tests" : "src", j), std::move(text)));
    }
    segments.push_back(repository(fmt::format("org/r{:03}", i * 37 % count), std::move(documents)));
  }
  return segments;
}

Result<Answer> split(const Segments& segments, const ParsedQuery& query, SearchTerms terms,
                     std::size_t groups) {
  std::vector<Segments> lists(groups);
  for (std::size_t i = 0; i < segments.size(); ++i) lists[i * 7 % groups].push_back(segments[i]);
  terms.is_part = true;
  std::vector<Answer> parts;
  for (const auto& list : lists) {
    auto part = search(list, query, terms);
    if (!part) return part;
    parts.push_back(std::move(*part));
  }
  terms.is_part = false;
  return merge_answers(std::move(parts), query, terms);
}

std::string text_of(const Answer& answer) {
  auto text = fmt::format("{} matches in {} files, about {}; {} {}\n", answer.match_count,
                          answer.file_count, answer.estimated_matches, answer.is_complete,
                          answer.why_incomplete);
  for (const auto& file : answer.files) {
    text += fmt::format("{} {}:{} {} {} {}\n", file.score, file.repo, file.path, file.blob,
                        file.match_count, file.is_cut);
    for (const auto& line : file.lines) text += fmt::format("  {}: {}\n", line.line, line.text);
    for (const auto& [repo, path] : file.same) text += fmt::format("  = {}:{}\n", repo, path);
  }
  return text + answer.next;
}

// Checks page after page that one, two and four processes give the same answer. Returns the number
// of pages.
int check_split(const Segments& segments, std::string_view text, SearchTerms terms) {
  CAPTURE(text);
  auto query = parse_query(text);
  REQUIRE(query);
  int pages = 0;
  do {
    auto whole = search(segments, *query, terms);
    REQUIRE_MESSAGE(whole, (whole ? "" : whole.error().what));
    for (std::size_t groups : {1, 2, 4}) {
      CAPTURE(groups);
      auto merged = split(segments, *query, terms, groups);
      REQUIRE_MESSAGE(merged, (merged ? "" : merged.error().what));
      REQUIRE(text_of(*merged) == text_of(*whole));
    }
    terms.after = whole->next;
    ++pages;
  } while (!terms.after.empty() && pages < 4);
  return pages;
}

TEST_CASE("an answer is the same however the repositories are spread, with any limits") {
  auto segments = repositories(3, 60);
  for (std::string_view text : {"return", "lock", "rare", "lock_it file:src", "return -rare",
                                "(rare|lock)_?[a-z]*", "return select:repo", "lock select:file",
                                "return count:50", "lock count:7", "f1 select:path", "nowhere"}) {
    check_split(segments, text, {.most_files = 20});
    check_split(segments, text, {.most_matches = 0, .most_files = 50});
    check_split(segments, text, {.most_matches = 300, .most_files = 10, .context_lines = 1});
    check_split(segments, text, {.most_files = 15, .answer_bytes = 3000});
    check_split(segments, text, {.most_matches = 200, .most_files = 15, .answer_bytes = 1500});
    check_split(segments, text, {.most_files = 15, .most_files_per_repo = 2});
    check_split(segments, text, {.most_matches = 500, .most_files = 15, .most_files_per_repo = 1});
    check_split(segments, text, {.most_files = 10, .collapses = true});
    check_split(segments, text,
                {.most_matches = 400,
                 .most_files = 10,
                 .most_files_per_repo = 3,
                 .answer_bytes = 4000,
                 .collapses = true});
  }
  CHECK(check_split(segments, "return", {.most_files = 20}) == 4);
}

TEST_CASE("what a limit of matches leaves is of all repositories, and within twice the limit") {
  auto segments = repositories(5, 60);
  auto query = parse_query("return");
  auto all = search(segments, *query, {.most_matches = 0, .most_files = SIZE_MAX});
  auto some = search(segments, *query, {.most_matches = 600, .most_files = SIZE_MAX});
  REQUIRE(some);
  CHECK(all->match_count > 5000);
  CHECK(some->match_count >= 600);
  CHECK(some->match_count < 2400);  // a repository ends with a file, not with a match
  CHECK(some->why_incomplete == "matches");
  CHECK(some->estimated_matches > all->match_count / 3);
  CHECK(some->estimated_matches < all->match_count * 3);
  auto repos_of = [](const Answer& answer) {
    std::map<std::string, int> repos;
    for (const auto& file : answer.files) ++repos[file.repo];
    return repos;
  };
  CHECK(repos_of(*some).size() == repos_of(*all).size());
}

TEST_CASE("a search looks into the repositories of its set, and into none if that is empty") {
  auto segments = repositories(7, 500);
  auto query = parse_query("return");
  auto repos_of = [&](const SearchTerms& terms) {
    std::map<std::string, int> repos;
    auto answer = search(segments, *query, terms);
    REQUIRE(answer);
    CHECK(answer->is_complete);
    for (const auto& file : answer->files) ++repos[file.repo];
    return repos;
  };
  SearchTerms terms{.most_matches = 0, .most_files = SIZE_MAX, .answer_bytes = SIZE_MAX};
  auto everything = repos_of(terms);
  CHECK(everything.size() > 400);
  terms.repos = RepoSet::of({"org/r007"});
  CHECK(repos_of(terms) == std::map<std::string, int>{{"org/r007", everything.at("org/r007")}});
  terms.repos = RepoSet::of({"org/r00", "r007", "org/r0077", ""});
  CHECK(repos_of(terms).empty());
  terms.repos = RepoSet::of({});
  CHECK(repos_of(terms).empty());
  std::unordered_set<std::string> names;
  for (const auto& segment : segments) names.insert(segment->name());
  terms.repos = RepoSet::of(names);
  CHECK(repos_of(terms) == everything);
  // A pattern in the query selects among them, and adds none.
  auto other = parse_query("return repo:r008");
  terms.repos = RepoSet::of({"org/r007"});
  CHECK(search(segments, *other, terms)->files.empty());
}

TEST_CASE("of one repository so many files are shown and no more, on whatever page") {
  std::vector<Document> many, few;
  for (int i = 0; i < 40; ++i) many.push_back(file(fmt::format("lock{}.c", i), "lock\n"));
  few.push_back(file("z.c", "a lock in few\n"));
  Segments segments{repository("many", std::move(many)), repository("few", std::move(few))};
  auto query = parse_query("lock");
  SearchTerms terms{.most_files = 3, .most_files_per_repo = 5};
  std::map<std::string, int> shown;
  do {
    auto page = search(segments, *query, terms);
    REQUIRE(page);
    CHECK(page->file_count == 41);
    for (const auto& file : page->files) ++shown[file.repo];
    terms.after = page->next;
  } while (!terms.after.empty());
  CHECK(shown == std::map<std::string, int>{{"many", 5}, {"few", 1}});
}

TEST_CASE("identical files are shown once with the list of the others, when that is asked for") {
  Segments segments;
  for (std::string name : {"a", "b", "c"})
    segments.push_back(
        repository(name, {file("src/lib.c", "the lock\n"), file("src/copy.c", "the lock\n"),
                          file("src/own.c", "a lock of " + name + "\n")}));
  segments.push_back(repository("d", {file("vendor/lib.c", "the lock\n")}));
  auto query = parse_query("content:lock");
  auto plain = search(segments, *query, {});
  CHECK(plain->files.size() == 10);
  auto answer = search(segments, *query, {.collapses = true});
  REQUIRE(answer);
  CHECK(answer->file_count == 10);
  REQUIRE(answer->files.size() ==
          5);  // lib.c, three of their own, and the vendored one, which ranks lower
  const auto& lib = *std::ranges::find(answer->files, "src/copy.c", &FileMatch::path);
  CHECK(lib.repo == "a");
  CHECK(lib.lines.size() == 1);
  CHECK(lib.same == std::vector<FilePlace>{{"a", "src/lib.c"},
                                           {"b", "src/copy.c"},
                                           {"b", "src/lib.c"},
                                           {"c", "src/copy.c"},
                                           {"c", "src/lib.c"}});
  CHECK(answer->files.back().path == "vendor/lib.c");
  CHECK(answer->files.back().same.empty());
}

TEST_CASE("a cursor fits wherever the same texts are, and no longer when one has changed") {
  auto segments = repositories(9, 20);
  auto query = parse_query("return");
  SearchTerms terms{.most_files = 5};
  terms.after = search(segments, *query, terms)->next;
  REQUIRE(!terms.after.empty());
  std::ranges::reverse(segments);
  auto expected = search(segments, *query, terms);
  REQUIRE(expected);
  segments[3] = repository(segments[3]->name(), {file("new.c", "nothing\n")}, "2");
  for (std::size_t groups : {0, 2}) {
    auto refused =
        groups == 0 ? search(segments, *query, terms) : split(segments, *query, terms, groups);
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::invalid);
    CHECK(refused.error().what == "the text has changed since the page of the cursor");
  }
  terms.allows_changes = true;
  auto gone_on = split(segments, *query, terms, 2);
  REQUIRE(gone_on);
  CHECK(gone_on->files.size() == 5);
  CHECK(text_of(*gone_on) == text_of(*search(segments, *query, terms)));
  auto other = parse_query("return -rare");
  CHECK(split(segments, *other, terms, 2).error().what == "the cursor is of another query");
}

TEST_CASE("no parts are an answer, and a part that ran out of time makes the whole incomplete") {
  auto query = parse_query("return");
  auto nothing = merge_answers({}, *query, {});
  REQUIRE(nothing);
  CHECK(nothing->is_complete);
  CHECK(nothing->files.empty());
  auto segments = repositories(11, 4);
  std::atomic<bool> is_cancelled = true;
  SearchTerms terms{.is_part = true};
  std::vector<Answer> parts;
  parts.push_back(*search(std::span(segments).first(2), *query, terms));
  terms.cancelled = &is_cancelled;
  parts.push_back(*search(std::span(segments).last(2), *query, terms));
  auto files = parts[0].files.size();
  auto merged = merge_answers(std::move(parts), *query, {});
  REQUIRE(merged);
  CHECK(merged->why_incomplete == "cancelled");
  CHECK(merged->files.size() == files);
}

TEST_CASE("files are given while a search goes on, each once and as the answer has them") {
  auto segments = repositories(13, 40);
  for (std::string_view text : {"return count:all", "lock", "return count:40"}) {
    auto query = parse_query(text);
    SearchTerms terms{.most_files = 60};
    Search search(segments, *query, terms);
    std::map<std::pair<std::string, std::string>, FileMatch> early;
    std::size_t batches = 0, files = 0;
    while (!search.run(Clock::now())) {
      auto batch = search.take_found();
      batches += !batch.empty();
      files += batch.size();
      CHECK(std::ranges::is_sorted(batch, std::ranges::greater(), &FileMatch::score));
      for (auto& file : batch) CHECK(early.emplace(std::pair(file.repo, file.path), file).second);
    }
    auto answer = search.answer();
    REQUIRE(answer);
    CHECK(batches > 1);
    CHECK(files <= terms.most_files);
    std::size_t known = 0;
    for (const auto& file : answer->files) {
      auto found = early.find({file.repo, file.path});
      if (found == early.end()) continue;
      ++known;
      CHECK(found->second.score == file.score);
      CHECK(found->second.match_count == file.match_count);
      CHECK(found->second.lines.size() == file.lines.size());
    }
    CHECK(known > 0);
    auto whole = warren::search::search(segments, *query, terms);
    CHECK(text_of(*answer) == text_of(*whole));
  }
}

TEST_CASE("any number of threads give the same answer over many repositories" *
          doctest::test_suite("threads")) {
  auto segments = repositories(15, 80);
  for (std::string_view text : {"return", "lock count:100", "return count:all", "rare"}) {
    auto query = parse_query(text);
    auto expected = search(segments, *query, {.most_matches = 700, .most_files = 30});
    REQUIRE(expected);
    for (int threads : {2, 3})
      for (int round = 0; round < 5; ++round) {
        auto again =
            search(segments, *query, {.most_matches = 700, .most_files = 30, .threads = threads});
        CHECK(text_of(*again) == text_of(*expected));
      }
  }
}

TEST_CASE("a line has its place in the file, and its end if that is asked for") {
  const std::string text = "one\r\ntwo plum\r\nthree\n\nplum";
  auto segment = repository("r", {file("a.txt", text)});
  auto query = parse_query("plum");
  REQUIRE(query);
  SearchTerms terms;
  terms.context_lines = 1;
  Segments segments{segment};
  auto plain = search(segments, *query, terms);
  REQUIRE(plain);
  const auto& lines = plain->files.at(0).lines;
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].text == "two plum");
  CHECK(lines[0].offset == 5);
  CHECK(lines[0].before == std::vector<std::string>{"one"});
  CHECK(lines[1].offset == text.size() - 4);
  terms.keeps_line_ends = true;
  auto exact = search(segments, *query, terms);
  REQUIRE(exact);
  for (const auto& line : exact->files.at(0).lines) {
    CHECK(text.substr(line.offset, line.text.size()) == line.text);
    for (const auto& range : line.ranges)
      CHECK(line.text.substr(range.begin, range.end - range.begin) == "plum");
    std::string around;
    for (const auto& one : line.before) around += one;
    around += line.text;
    for (const auto& one : line.after) around += one;
    CHECK(text.contains(around));
  }
  CHECK(exact->files[0].lines[0].text == "two plum\r\n");
  CHECK(exact->files[0].lines[1].text == "plum");
  CHECK(exact->files[0].lines[1].before == std::vector<std::string>{"\n"});
  terms.line_bytes = 4;
  auto cut = search(segments, *query, terms);
  REQUIRE(cut);
  CHECK(cut->files[0].lines[0].text == "plum");
  CHECK(cut->files[0].lines[0].offset == 9);
}

}  // namespace
}  // namespace warren::search
