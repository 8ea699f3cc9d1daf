// What is known of a build's memory before it begins, and what it took.
#include <doctest/doctest.h>
#include <malloc.h>

#include <fstream>
#include <set>

#include "proof/testkit/temp_folder.h"
#include "search/index/parts.h"
#include "search/index/symbols.h"
#include "search/index/warm.h"
#include "search/source/folder.h"
#include "search/source/test_repository.h"
#include "search/store/delta.h"
#include "search/store/memory.h"
#include "search_fetched.h"

namespace warren::search {
namespace {

namespace fs = std::filesystem;

// "VmHWM": the most that was resident since forget_peak().
std::size_t status_of(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == name + ":") {
      std::size_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes << 10;
    }
  FAIL("the system does not tell ", name);
  return 0;
}
void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

struct Built {
  MemoryForecast forecast;
  SegmentListPtr list = nullptr;
  std::size_t peak = 0;  // beyond what there was before
};

Built built(const fs::path& folder) {
  SourceLimits limits;
  auto listing = list_folder(folder.string(), limits);
  REQUIRE(listing);
  Built result{.forecast = forecast_memory(*listing)};
  auto read = [&](std::span<const TreeEntry> entries, std::vector<Skipped>& skipped,
                  const Take& take) {
    return read_folder(folder.string(), entries, limits, skipped, take);
  };
  malloc_trim(0);
  auto before = status_of("VmRSS");
  forget_peak();
  auto list = update_listing(std::move(*listing), read, nullptr);
  REQUIRE(list);
  auto most = status_of("VmHWM");
  result.peak = most > before ? most - before : 0;
  result.list = std::move(*list);
  return result;
}

TEST_CASE("the memory of a build is known before it begins") {
  TempFolder log;
  auto corpus = fetched_corpus(log.path() / "log").folder;
  std::set<fs::path> folders{corpus};
  for (const auto& entry : fs::directory_iterator(corpus))
    if (entry.is_directory() && !entry.is_symlink()) folders.insert(entry.path());
  std::size_t compared = 0;
  for (const auto& folder : folders) {
    CAPTURE(folder.filename());
    auto [forecast, list, peak] = built(folder);
    auto actual = static_cast<double>(memory_of(*list).total());
    if (actual > 256 << 10) {
      ++compared;
      CHECK(static_cast<double>(forecast.steady) == doctest::Approx(actual).epsilon(0.15));
    }
    CHECK(forecast.peak >= peak);
    CHECK(forecast.peak >= forecast.steady);
  }
  CHECK(compared >= 4);
}

TEST_CASE("what segments share counts once, whatever was made of them") {
  TempFolder log;
  auto list = built(WARREN_SOURCE "/src").list;
  SegmentList all = *list;
  auto one = memory_of(all).total();
  CHECK(one == all[0]->memory().total());
  all.push_back(all[0]);
  CHECK(memory_of(all).total() == one);
  // The strings of what it is and where from are in every one.
  auto strings = memory_of(all[0]->parts().source);
  auto warm = cooled(*all[0], {});
  REQUIRE(warm);
  auto frames = (*warm)->memory().text;
  CHECK(frames < all[0]->memory().text);
  CHECK(memory_of(std::vector{all[0], *warm}).total() == one + frames + strings);
  auto named = with_symbols(all[0]);
  REQUIRE(named);
  auto symbols = (*named)->memory().symbols;
  CHECK(symbols > 0);
  CHECK(memory_of(std::vector{all[0], *named}).total() == one + symbols + strings);
  CHECK(memory_of(std::vector{all[0], *warm, *named}).total() ==
        one + frames + symbols + 2 * strings);
  auto share = static_cast<double>(symbols) / static_cast<double>(all[0]->arena().size());
  CHECK(share < 2 * symbols_per_byte);
}

// The output of git for an input.
std::string fed(const Repository& repository, std::vector<std::string> words,
                const std::string& input) {
  ChildTerms terms;
  terms.argv = {"git", "-C", repository.path.string()};
  terms.argv.insert(terms.argv.end(), words.begin(), words.end());
  terms.environment = {std::string("PATH=") + std::getenv("PATH"),
                       "HOME=/nonexistent",
                       "GIT_AUTHOR_NAME=a",
                       "GIT_AUTHOR_EMAIL=a@b",
                       "GIT_COMMITTER_NAME=a",
                       "GIT_COMMITTER_EMAIL=a@b"};
  auto answer = run_child(terms, input, 1u << 20);
  REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().what));
  while (answer->ends_with('\n')) answer->pop_back();
  return *answer;
}

// Ten levels of ten folders, each ten times the same: a few kilobytes name ten billion things.
void commit_bomb(const Repository& repository, std::string kind, std::string id) {
  for (int level = 0; level < 10; ++level) {
    std::string entries;
    for (int i = 0; i < 10; ++i) entries += fmt::format("{} {}\tname-{}\n", kind, id, i);
    id = fed(repository, {"mktree", "--missing"}, entries);
    kind = "040000 tree";
  }
  auto commit = fed(repository, {"commit-tree", id, "-m", "x"}, "");
  repository.run({"update-ref", "HEAD", commit});
}

void commit_bomb_of_files(const Repository& repository) {
  commit_bomb(repository, "100644 blob",
              fed(repository, {"hash-object", "-w", "--stdin"}, "int a;\n"));
}

TEST_CASE("a tree that names billions of files ends where --memory does") {
  constexpr std::size_t memory = 128u << 20, beyond = 64u << 20;
  for (bool has_files : {true, false}) {
    CAPTURE(has_files);
    Repository repository;
    if (has_files)
      commit_bomb_of_files(repository);
    else
      commit_bomb(repository, "160000 commit", std::string(40, '1'));  // submodules are left out
    malloc_trim(0);
    auto before = status_of("VmRSS");
    forget_peak();
    SourceLimits limits{.memory_bytes = memory};
    auto listing = list_repository(repository.path.string(), {}, limits);
    REQUIRE(!listing);
    CHECK(listing.error().code == Errc::overloaded);
    CHECK(status_of("VmHWM") - before <= memory + beyond);
  }
}

TEST_CASE("warren search --ref on such a tree says what to do, within its memory") {
  Repository repository;
  commit_bomb_of_files(repository);
  // Python is small: the peak of a process counts from before its exec.
  ChildTerms terms;
  terms.argv = {"python3", "-c", R"(
import resource, subprocess, sys
done = subprocess.run([sys.argv[1], 'search', '--ref', 'HEAD', '--no-cache', '--memory', '128M',
                       sys.argv[2], 'int'], capture_output=True, text=True)
print(done.stderr, 'exit', done.returncode)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
)",
                WARREN_BINARY, repository.path.string()};
  terms.environment = {std::string("PATH=") + std::getenv("PATH"),
                       "HOME=" + repository.folder.path().string()};
  auto said = run_child(terms, "", 1u << 20);
  REQUIRE_MESSAGE(said, (said ? "" : said.error().what));
  CAPTURE(*said);
  CHECK(said->contains("--memory allows more"));
  CHECK(said->contains("exit 2\n"));
  auto kilobytes = std::stol(said->substr(said->rfind('\n', said->size() - 2) + 1));
  CHECK(kilobytes <= (128 + 64) * 1024);
}

TEST_CASE("tiny repositories take whole pages, and that is what is counted") {
  SegmentBuilder builder;
  REQUIRE(builder.add({"a.c", "int a;\n", "", {}}));
  auto tiny = builder.build({.name = "tiny", .version = "1", .branches = {}, .skipped = {}});
  REQUIRE(tiny);
  auto memory = memory_of(std::vector{*tiny});
  CHECK(memory.text == page_bytes);
  CHECK(memory.blocks == page_bytes);
  CHECK(memory.postings == 0);
  Listing listing;
  listing.source.name = "tiny";
  listing.source.version = "1";
  listing.entries.push_back({"a.c", "", 7, {}});
  CHECK(forecast_memory(listing).steady == memory.total());
}

}  // namespace
}  // namespace warren::search
