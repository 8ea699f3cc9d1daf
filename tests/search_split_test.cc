// Many repositories, cut from the source of a Debian package by its folders, searched by one process
// and by parts of it: the 267 queries of the comparison with ripgrep have the same answers. Each day a
// third of them is asked; WARREN_QUERIES=all asks all.
#include <doctest/doctest.h>

#include <map>
#include <random>

#include "proof/testkit/temp_folder.h"
#include "proof/torture/schedules/daily_seed.h"
#include "search/index/symbols.h"
#include "search/index/warm.h"
#include "search/query/search.h"
#include "search/store/delta.h"
#include "search_fetched.h"
#include "search_odd_files.h"
#include "search_ripgrep_queries.h"

namespace warren::search {
namespace {

namespace fs = std::filesystem;

// The first folder of a path names its repository, with the letter that follows; every third is
// warm, every fourth has symbols.
SegmentList repositories_of(const fs::path& folder, const std::string& owner) {
  std::map<std::string, std::vector<Document>> repos;
  auto take = [&](Document&& document) {
    auto slash = document.path.find('/');
    auto name =
        owner + "/" + (slash == document.path.npos ? "top" : document.path.substr(0, slash + 2));
    document.blob = fmt::format("{:016x}{:024x}", std::hash<std::string>()(document.text),
                                document.text.size());
    repos[name].push_back(std::move(document));
    return Result<>(ok);
  };
  REQUIRE(read_directory(folder.string(), {}, take));
  SegmentList segments;
  for (auto& [name, documents] : repos) {
    SegmentBuilder builder({.threads = 1});
    for (auto& document : documents) REQUIRE(builder.add(std::move(document)));
    auto built = builder.build({.name = name, .version = "1", .branches = {}, .skipped = {}});
    REQUIRE(built);
    if (segments.size() % 4 == 0) built = with_symbols(*built);
    if (segments.size() % 3 == 0) built = cooled(**built, {});
    REQUIRE(built);
    segments.push_back(std::move(*built));
  }
  return segments;
}

std::string text_of(const Answer& answer) {
  auto text = fmt::format("{} matches in {} files, about {}; {} {}\n", answer.match_count,
                          answer.file_count, answer.estimated_matches, answer.is_complete,
                          answer.why_incomplete);
  for (const auto& file : answer.files) {
    text += fmt::format("{} {} {} {}\n", file.score, file.repo, file.path, file.match_count);
    for (const auto& line : file.lines) {
      text += fmt::format("  {} {}", line.line, line.text);
      for (const auto& range : line.ranges) text += fmt::format(" {}-{}", range.begin, range.end);
      text += '\n';
    }
    for (const auto& [repo, path] : file.same) text += fmt::format("  = {}:{}\n", repo, path);
  }
  return text + answer.next;
}

Result<Answer> by_parts(const std::vector<SegmentList>& groups, const ParsedQuery& query,
                        SearchTerms terms) {
  terms.is_part = true;
  std::vector<Answer> parts;
  for (const auto& group : groups) {
    auto part = search(group, query, terms);
    if (!part) return part;
    parts.push_back(std::move(*part));
  }
  terms.is_part = false;
  return merge_answers(std::move(parts), query, terms);
}

struct Split {
  SegmentList all;
  std::vector<std::vector<SegmentList>> ways;  // into one group, into two, into four

  explicit Split(SegmentList segments) : all(std::move(segments)) {
    std::mt19937 random(17);
    for (std::size_t count : {1, 2, 4}) {
      auto& groups = ways.emplace_back(count);
      for (const auto& segment : all) groups[random() % count].push_back(segment);
    }
  }

  // Two pages; how many files there were on them.
  std::size_t check(const ParsedQuery& query, SearchTerms terms) const {
    std::size_t files = 0;
    for (int page = 0; page < 2; ++page) {
      CAPTURE(page);
      auto whole = search(all, query, terms);
      for (const auto& groups : ways) {
        CAPTURE(groups.size());
        auto merged = by_parts(groups, query, terms);
        REQUIRE(merged.has_value() == whole.has_value());
        if (whole) CHECK(text_of(*merged) == text_of(*whole));
      }
      if (!whole) return 0;
      files += whole->files.size();
      terms.after = whole->next;
      if (terms.after.empty()) break;
    }
    return files;
  }
};

TEST_CASE("answers do not depend on how repositories are spread over processes") {
  TempFolder folder;
  auto corpus = fetched_corpus(folder.path() / "log");
  auto segments = repositories_of(corpus.folder, "corpus");
  write_odd_files(folder.path() / "odd");
  for (auto& odd : repositories_of(folder.path() / "odd", "odd")) segments.push_back(odd);
  REQUIRE(segments.size() > 20);
  Split split(std::move(segments));
  const char* asked = std::getenv("WARREN_QUERIES");
  bool asks_all = asked && std::string_view(asked) == "all";
  std::size_t found = 0, files = 0, cases = 0;
  auto third = torture::daily_seed() / torture::daily_seeds % 3;
  MESSAGE("WARREN_SEED=" << torture::daily_seed() << " asks these queries again");
  std::size_t place = 0;
  for (const auto& one : ripgrep_cases()) {
    if (place++ % 3 != third && !asks_all) continue;
    CAPTURE(one.query);
    auto query = parse_query(one.query);
    REQUIRE(query);
    auto before = files;
    files += split.check(*query, {.most_files = 50, .context_lines = 1});
    files += split.check(*query, {.most_matches = 500, .most_files = 50});
    files += split.check(*query, {.most_matches = 2000,
                                  .most_files = 50,
                                  .most_files_per_repo = 4,
                                  .answer_bytes = 20'000,
                                  .collapses = true});
    found += files > before;
    ++cases;
  }
  MESSAGE(cases, " queries, ", found, " of them with matches, over ", split.all.size(),
          " repositories: ", files, " files compared three times");
  CHECK(cases >= (asks_all ? 267 : 89));
  CHECK(found * 10 > cases * 6);
}

}  // namespace
}  // namespace warren::search
