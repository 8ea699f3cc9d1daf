#include "search/index/warm.h"

#include <thread>

#include "proof/testkit/temp_folder.h"
#include "search/index/test_texts.h"

namespace warren::search {
namespace {

std::shared_ptr<const Segment> cool(const Segment& segment) {
  auto warm = cooled(segment, {});
  REQUIRE(warm);
  return *warm;
}

std::vector<Document> sources() {
  std::vector<Document> documents;
  std::mt19937 random(2);
  for (int i = 0; i < 900; ++i) {
    std::string text;
    auto lines = i == 5 ? 9000 : random() % 120;
    for (std::size_t line = 0; line < lines; ++line)
      text +=
          fmt::format("  if (value_{} == {}) return check(value_{});\n", random() % 50, line, i);
    documents.push_back(doc(fmt::format("src/f{}.c", i), text));
  }
  documents.push_back(doc("empty.c", ""));
  return documents;
}

TEST_CASE("a warm segment shows the same in less than half of the memory, and gets hot again") {
  auto documents = sources();
  auto hot = build(documents);
  auto warm = cool(*hot);
  CHECK(warm->is_warm());
  CHECK(warm->arena().empty());
  CHECK(warm->memory().total() * 2 < hot->memory().total());
  check_against_reference(*warm, documents);
  TempFolder folder;
  auto path = (folder.path() / "w").string();
  REQUIRE(warm->save(path));
  auto loaded = Segment::load(path);
  REQUIRE(loaded);
  check_against_reference(**loaded, documents);
  auto again = heated(**loaded, {});
  REQUIRE(again);
  CHECK((*again)->arena() == hot->arena());
  check_against_reference(**again, documents);
}

TEST_CASE("texts that do not compress, one long line and nothing at all can be warm") {
  std::mt19937 random(3);
  auto documents = random_documents(random, 50, 40'000);
  documents.push_back(doc("long.c", std::string(3'000'000, 'x')));
  check_against_reference(*cool(*build(documents)), documents);
  auto nothing = cool(*build({}));
  CHECK(nothing->block_count() == 0);
  check_against_reference(*cool(*build({doc("e", "")})), {doc("e", "")});
}

TEST_CASE("a view of a warm block stays while 31 others are looked at") {
  auto documents = sources();
  auto hot = build(documents);
  auto warm = cool(*hot);
  std::mt19937 random(4);
  std::vector<std::pair<std::uint32_t, std::string_view>> views;
  for (int i = 0; i < 2000; ++i) {
    auto block = static_cast<std::uint32_t>(random() % warm->block_count());
    views.emplace_back(block, warm->block(block).text);
    if (views.size() > 32) views.erase(views.begin());
    if (i % 50 != 0) continue;
    for (auto [place, view] : views) CHECK(view == hot->block(place).text);
  }
}

TEST_CASE("threads look at warm segments that come and go, each in its own copies" *
          doctest::test_suite("threads")) {
  auto documents = sources();
  auto hot = build(documents);
  std::atomic<std::size_t> wrong = 0;
  std::vector<std::jthread> readers;
  auto shared = cool(*hot);
  for (int reader = 0; reader < 3; ++reader)
    readers.emplace_back([&, reader] {
      std::mt19937 random(static_cast<unsigned>(reader));
      for (int round = 0; round < 3; ++round) {
        auto own = *cooled(*hot, {.threads = 1});
        for (int i = 0; i < 300; ++i) {
          auto block = static_cast<std::uint32_t>(random() % hot->block_count());
          auto file = hot->block(block).file;
          if (own->block(block).text != hot->block(block).text) ++wrong;
          if (shared->block(block).text != hot->block(block).text) ++wrong;
          if (shared->text(file) != hot->text(file)) ++wrong;
        }
      }
    });
  readers.clear();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace warren::search
