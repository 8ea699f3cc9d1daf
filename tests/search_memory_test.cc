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
