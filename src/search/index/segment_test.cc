#include "search/index/segment.h"

#include <mutex>
#include <thread>

#include "search/index/test_texts.h"
#include "search/text/rounds.h"

namespace warren::search {
namespace {

TEST_CASE("every block of whole lines is found by each of its keys and by no other") {
  for (int seed = 1; seed <= rounds(3); ++seed) {
    std::mt19937 random(seed);
    auto documents = random_documents(random, std::size_t{80} * seed, 16'000);
    for (std::size_t block_bytes : {256, 4096}) {
      auto segment = build(documents, {.block_bytes = block_bytes});
      CHECK(segment->has_index());
      check_against_reference(*segment, documents);
    }
  }
}

TEST_CASE("texts of every odd shape are kept byte by byte") {
  std::string no_utf8 = "caf\xe9 \xff\xfe\n", long_line(100'000, 'x');
  std::vector<Document> documents{doc("empty", ""),
                                  doc("one", "x"),
                                  doc("newline", "\n"),
                                  doc("no-end", "a\nb"),
                                  doc("crlf", "a\r\nb\r\n\r\n"),
                                  doc("nul", fmt::format("{}{}b\n", std::string(9000, 'a'), '\0')),
                                  doc("latin1", no_utf8),
                                  doc("long", "a\n" + long_line + "needle" + long_line + "\nb\n"),
                                  doc("utf8", "na\xc3\xafve \xe4\xb8\xad\n"),
                                  doc("empty2", "")};
  for (int i = 0; i < 3000; ++i)
    documents.push_back(doc("fill/" + std::to_string(i),
                            "line " + std::to_string(i) + "\n" + std::string(200, 'y') + "\n"));
  auto segment = build(documents);
  CHECK(segment->has_index());
  check_against_reference(*segment, documents);
  for (std::uint32_t place = 0; place < segment->file_count(); ++place) {
    auto file = segment->file(place);
    if (file.path == "latin1") CHECK(segment->block(file.first_block).flags == 0);
    if (file.path == "utf8") CHECK(segment->block(file.first_block).flags == block_utf8);
    if (file.path == "empty") CHECK(file.block_count == 0);
    if (file.path == "long") {
      REQUIRE(file.block_count == 3);  // the long line is one block, whatever its length
      CHECK(segment->block(file.first_block + 2).first_line == 3);
    }
  }
}

TEST_CASE("a line of 50 MB is one block") {
  std::string line(50u << 20, ' ');
  std::mt19937 random(1);
  for (char& c : line) c = static_cast<char>('a' + random() % 26);
  auto segment = build({doc("big.json", line), doc("a.c", "int x;\n")});
  REQUIRE(segment->block_count() == 2);
  CHECK(segment->block(1).text.size() == line.size());
  std::vector<std::uint32_t> places;
  segment->decode_postings(key_of('i', 'n', 't'), places);
  CHECK(places == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("nothing to search is a segment too") {
  auto segment = build({});
  CHECK(segment->file_count() == 0);
  CHECK(segment->block_count() == 0);
  CHECK(!segment->has_index());
  CHECK(segment->arena().empty());
}

TEST_CASE("little text has no index, and its files come in the order of their worth") {
  auto segment = build({doc("vendor/a.c", "int a;"), doc("src/long_name.c", "int b;"),
                        doc("a_test.c", "int c;"), doc("b.c", "int d;"), doc("README.md", "e"),
                        doc("x.pb.go", "f")});
  CHECK(!segment->has_index());
  CHECK(segment->posting_count(key_of('i', 'n', 't')) == 0);
  std::vector<std::string_view> paths;
  for (std::uint32_t place = 0; place < segment->file_count(); ++place)
    paths.push_back(segment->file(place).path);
  CHECK(paths == std::vector<std::string_view>{"b.c", "src/long_name.c", "a_test.c", "README.md",
                                               "vendor/a.c", "x.pb.go"});
}

TEST_CASE("a build that would need more than its budget is refused and leaves nothing") {
  std::mt19937 random(3);
  auto documents = random_documents(random, 100, 40'000);
  std::size_t text = 0;
  for (const auto& document : documents) text += document.text.size();
  auto outcome = [&](std::size_t budget) -> Result<> {
    SegmentBuilder builder({.memory_bytes = budget});
    for (auto document : documents) {
      auto added = builder.add(std::move(document));
      if (!added) return added;
    }
    auto made = builder.build({});
    if (!made) return std::unexpected(made.error());
    return ok;
  };
  for (auto budget : {text / 2, text * 3 / 2, text * 2}) {
    auto refused = outcome(budget);
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::overloaded);
  }
  CHECK(outcome(text * 8));
}

// The number of bytes that the system has mapped for us.
std::size_t mapped_bytes() {
  std::size_t pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  REQUIRE(file != nullptr);
  bool is_read = std::fscanf(file, "%zu", &pages) == 1;
  std::fclose(file);
  REQUIRE(is_read);
  return pages * 4096;
}

TEST_CASE("the memory that a segment reports is what goes when it goes") {
  std::mt19937 random(3);
  auto segment = build(random_documents(random, 400, 60'000));
  auto memory = segment->memory();
  std::size_t strings = memory.total() - memory.text - memory.postings - memory.directory -
                        memory.blocks - memory.symbols - memory.files;
  CHECK(strings == 0);
  CHECK(memory.total() > segment->arena().size());
  auto before = mapped_bytes();
  auto total = memory.total();
  segment.reset();
  auto freed = before - mapped_bytes();
  // Only the few bytes of the names are not in pages of their own, and other threads map a little.
  CHECK(freed <= total);
  CHECK(freed + total / 100 > total);
}

TEST_CASE("200,000 small files") {
  SegmentBuilder builder;
  for (int i = 0; i < 200'000; ++i)
    REQUIRE(builder.add(doc(fmt::format("d{}/f{}.c", i % 500, i), fmt::format("int v{};\n", i))));
  auto made = builder.build({});
  REQUIRE(made);
  CHECK((*made)->file_count() == 200'000);
  CHECK((*made)->block_count() == 200'000);
  std::vector<std::uint32_t> places;
  (*made)->decode_postings(key_of('i', 'n', 't'), places);
  CHECK(places.size() == 200'000);
}

TEST_CASE("any number of threads read a segment while others swap and drop it" *
          doctest::test_suite("threads")) {
  std::mt19937 random(9);
  auto documents = random_documents(random, 60, 30'000);
  auto current = build(documents);
  std::mutex mutex;  // std::atomic<std::shared_ptr> of g++ 12 has a race
  std::atomic<bool> is_over = false;
  std::atomic<std::size_t> wrong = 0, rounds = 0;
  std::vector<std::jthread> readers;
  for (int reader = 0; reader < 3; ++reader)
    readers.emplace_back([&] {
      std::vector<std::uint32_t> places;
      while (!is_over) {
        auto segment = [&] {
          std::lock_guard lock(mutex);
          return current;
        }();
        segment->decode_postings(key_of('a', 'a', 'a'), places);
        for (auto place : places)
          if (segment->block(place).text.empty()) ++wrong;
        ++rounds;
      }
    });
  for (int i = 0; i < 8 || rounds < 30; ++i) {
    auto next = build(documents);
    std::lock_guard lock(mutex);
    current.swap(next);
  }
  is_over = true;
  readers.clear();
  CHECK(wrong == 0);
}

TEST_CASE("a build tells how much of it is done, on the thread of its caller" *
          doctest::test_suite("threads")) {
  std::mt19937 random(8);
  for (int threads : {1, 2}) {
    Parts parts;
    BuildTerms terms{.threads = threads, .progress = parts.taker()};
    CHECK(build(random_documents(random, 300, 20'000), terms)->has_index());
    parts.check_that_they_rise();
  }
}

}  // namespace
}  // namespace warren::search
