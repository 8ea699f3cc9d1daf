#include "search/store/cache.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "proof/testkit/temp_folder.h"
#include "search/index/test_texts.h"

namespace warren::search {
namespace {

namespace fs = std::filesystem;

std::size_t count_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

TEST_CASE("what was kept is loaded again, for its owner alone") {
  TempFolder folder;
  auto place = folder.path() / "deep" / "cache";
  auto cache = SegmentCache::open(place.string());
  REQUIRE(cache);
  CHECK(cache->load("k") == nullptr);
  REQUIRE(cache->save_base("k", *build({doc("a.c", "one\n")})));
  REQUIRE(cache->save_delta("k", *build({doc("b.c", "two\n")}), "1"));
  for (int i = 0; i < 3; ++i) {
    auto list = cache->load("k");
    REQUIRE(list);
    REQUIRE(list->size() == 2);
    CHECK((*list)[0]->file(0).text == "one\n");
    CHECK((*list)[1]->file(0).text == "two\n");
  }
  struct stat facts{};
  REQUIRE(stat(place.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0700);
  for (const auto& entry : fs::directory_iterator(place)) {
    REQUIRE(stat(entry.path().c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777) == 0600);
  }
  // A new base contains everything that the delta had.
  REQUIRE(cache->save_base("k", *build({doc("c.c", "three\n")})));
  CHECK(cache->load("k")->size() == 1);
}

TEST_CASE("a delta is kept beside its own base alone") {
  TempFolder folder;
  auto cache = SegmentCache::open(folder.path().string());
  REQUIRE(cache);
  auto delta = build({doc("b.c", "two\n")});
  REQUIRE(cache->save_delta("k", *delta, "1"));
  CHECK(count_in(folder.path()) == 0);
  REQUIRE(cache->save_base("k", *build({doc("a.c", "one\n")})));
  REQUIRE(cache->save_delta("k", *delta, "1"));
  CHECK(cache->load("k")->size() == 2);
  // A process that still has the previous base comes too late.
  SegmentBuilder builder;
  REQUIRE(builder.add(doc("b.c", "two\n")));
  auto next = builder.build({.name = "test", .version = "2", .branches = {}, .skipped = {}});
  REQUIRE(next);
  REQUIRE(cache->save_base("k", **next));
  REQUIRE(cache->save_delta("k", *delta, "1"));
  CHECK(cache->load("k")->size() == 1);
}

TEST_CASE("a file that somebody changed is checked again, and removed when it is damaged") {
  TempFolder folder;
  auto cache = SegmentCache::open(folder.path().string());
  REQUIRE(cache);
  std::mt19937 random(21);
  auto segment = build(random_documents(random, 20, 20'000));
  for (int i = 0; i < 30; ++i) {
    REQUIRE(cache->save_base("k", *segment));
    REQUIRE(cache->load("k"));
    auto path = folder.path() / "k.base";
    auto size = fs::file_size(path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    auto at = static_cast<std::streamoff>(random() % size);
    file.seekg(at);
    auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(byte);
    file.close();
    CAPTURE(at);
    CHECK(cache->load("k") == nullptr);
    CHECK(!fs::exists(path));
  }
  // A copied file is checked once and then known.
  REQUIRE(cache->save_base("k", *segment));
  fs::copy_file(folder.path() / "k.base", folder.path() / "x.base");
  REQUIRE(cache->load("x"));
  REQUIRE(cache->load("x"));
}

TEST_CASE("what was not used for longest goes first when there is no room") {
  TempFolder folder;
  auto cache = SegmentCache::open(folder.path().string(), 900u << 10);
  REQUIRE(cache);
  auto segment = build({doc("a.c", std::string(100'000, 'x'))});
  REQUIRE(cache->save_base("one", *segment));
  auto bytes = fs::file_size(folder.path() / "one.base");
  REQUIRE(bytes < 900u << 10);
  auto fit = (900u << 10) / (bytes + 8192);
  for (std::size_t i = 0; i < fit + 2; ++i) {
    REQUIRE(cache->save_base(fmt::format("k{}", i), *segment));
    REQUIRE(cache->load("one"));  // in use
  }
  CHECK(cache->load("one"));
  CHECK(cache->load(fmt::format("k{}", fit + 1)));
  CHECK(cache->load("k0") == nullptr);
  std::size_t total = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) total += entry.file_size();
  CHECK(total <= 900u << 10);
  // A segment that would never fit is not kept, and evicts nothing.
  auto before = count_in(folder.path());
  REQUIRE(cache->save_base("huge", *build({doc("h.c", std::string(2'000'000, 'y'))})));
  CHECK(count_in(folder.path()) == before);
}

TEST_CASE("a full disk is an error that leaves nothing behind") {
  TempFolder folder;
  auto cache = SegmentCache::open(folder.path().string());
  REQUIRE(cache);
  std::mt19937 random(22);
  auto large = build(random_documents(random, 60, 40'000));
  rlimit usual{};
  getrlimit(RLIMIT_FSIZE, &usual);
  rlimit small{64u << 10, usual.rlim_max};
  auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  auto saved = cache->save_base("k", *large);
  setrlimit(RLIMIT_FSIZE, &usual);
  signal(SIGXFSZ, handler);
  REQUIRE(!saved);
  CHECK(count_in(folder.path()) == 0);
  auto no_folder = SegmentCache::open("/dev/null/x");
  REQUIRE(!no_folder);
  CHECK(no_folder.error().code == Errc::unavailable);
}

}  // namespace
}  // namespace warren::search
