#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "proof/testkit/temp_folder.h"
#include "search/index/test_texts.h"

namespace warren::search {
namespace {

std::string read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_whole(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::shared_ptr<const Segment> with_branches(std::vector<Document> documents) {
  SegmentBuilder builder;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    documents[i].blob = fmt::format("{:040x}", i);
    documents[i].branches = {static_cast<std::uint16_t>(i % 9)};
    REQUIRE(builder.add(std::move(documents[i])));
  }
  Source source{.name = "r", .version = "v", .branches = {}, .skipped = {{"x.png", "binary"}}};
  for (int i = 0; i < 9; ++i) source.branches.push_back("b" + std::to_string(i));
  auto made = builder.build(std::move(source));
  REQUIRE(made);
  return *made;
}

TEST_CASE("a saved segment is the same when it is loaded, to the last byte") {
  TempFolder folder;
  std::mt19937 random(11);
  auto documents = random_documents(random, 80, 40'000);
  auto segment = with_branches(documents);
  auto path = (folder.path() / "a.seg").string();
  REQUIRE(segment->save(path));
  auto loaded = Segment::load(path);
  REQUIRE(loaded);
  CHECK((*loaded)->name() == "r");
  CHECK((*loaded)->version() == "v");
  CHECK((*loaded)->branches() == segment->branches());
  REQUIRE((*loaded)->skipped().size() == 1);
  CHECK((*loaded)->skipped()[0].reason == "binary");
  check_against_reference(**loaded, documents);
  CHECK((*loaded)->memory().total() == segment->memory().total());
  for (std::uint32_t place = 0; place < segment->file_count(); ++place) {
    CHECK((*loaded)->file(place).blob == segment->file(place).blob);
    CHECK((*loaded)->file(place).language == "C");
    for (std::uint16_t branch = 0; branch < 10; ++branch)
      CHECK((*loaded)->is_on_branch(place, branch) == segment->is_on_branch(place, branch));
  }
  auto again = (folder.path() / "b.seg").string();
  REQUIRE((*loaded)->save(again));
  CHECK(read_whole(path) == read_whole(again));
}

TEST_CASE("a file that is truncated, damaged in any byte or something else is refused") {
  TempFolder folder;
  std::mt19937 random(12);
  auto path = folder.path() / "a.seg";
  REQUIRE(with_branches(random_documents(random, 30, 30'000))->save(path.string()));
  auto good = read_whole(path);
  auto is_refused = [&](const std::string& bytes) {
    write_whole(path, bytes);
    auto loaded = Segment::load(path.string());
    return !loaded && loaded.error().code == Errc::invalid;
  };
  CHECK(is_refused(""));
  CHECK(is_refused("#!/bin/sh\n"));
  CHECK(is_refused(std::string(8192, 'x')));
  CHECK(is_refused(good + std::string(4096, '\0')));
  for (int i = 0; i < 60; ++i) CHECK(is_refused(good.substr(0, random() % good.size())));
  for (int i = 0; i < 300; ++i) {
    auto bad = good;
    // Damages the head, which has the sizes, often enough.
    auto place = random() % (i % 3 == 0 ? 256 : good.size());
    bad[place] = static_cast<char>(bad[place] ^ static_cast<char>(1u << (random() % 8)));
    CAPTURE(place);
    CHECK(is_refused(bad));
  }
  write_whole(path, good);
  CHECK(Segment::load(path.string()));
  auto missing = Segment::load((folder.path() / "none").string());
  REQUIRE(!missing);
  CHECK(missing.error().code == Errc::not_found);
}

TEST_CASE("a disk that is full leaves the old file and no half of a new one") {
  TempFolder folder;
  auto path = folder.path() / "a.seg";
  REQUIRE(build({doc("a.c", "old\n")})->save(path.string()));
  auto before = read_whole(path);
  std::mt19937 random(13);
  auto large = build(random_documents(random, 60, 40'000));
  // The closest a test can get to a full disk: files may not grow beyond 64 KB.
  rlimit usual{};
  getrlimit(RLIMIT_FSIZE, &usual);
  rlimit small{64u << 10, usual.rlim_max};
  auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  auto saved = large->save(path.string());
  setrlimit(RLIMIT_FSIZE, &usual);
  signal(SIGXFSZ, handler);
  REQUIRE(!saved);
  CHECK(saved.error().code == Errc::unavailable);
  CHECK(saved.error().what.find("cannot be written") != std::string::npos);
  CHECK(read_whole(path) == before);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

}  // namespace
}  // namespace warren::search
