#pragma once
// Texts for tests, and a simple way to compute what a segment must contain.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include "search/index/segment.h"

namespace warren::search {

inline Document doc(std::string path, std::string text) {
  return {std::move(path), std::move(text), "", {}};
}

inline std::shared_ptr<const Segment> build(std::vector<Document> documents,
                                            BuildTerms terms = {}) {
  SegmentBuilder builder(terms);
  for (auto& document : documents) REQUIRE(builder.add(std::move(document)));
  auto made = builder.build({.name = "test", .version = "1", .branches = {}, .skipped = {}});
  REQUIRE(made);
  return *made;
}

inline std::vector<Document> random_documents(std::mt19937& random, std::size_t count,
                                              std::size_t most) {
  static const std::string letters =
      "aaaaeeeeiiiionnnrrssttttlldcumpfghbvkyxqjzwABCDEF0123456789      "
      "\n\n\n\r\t_();=,.-{}\"\\'!\xc3\xa4";
  std::vector<Document> documents;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text(random() % (most + 1), ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    if (random() % 4 == 0)
      for (char& c : text) c = static_cast<char>(random());
    if (random() % 8 == 0) std::replace(text.begin(), text.end(), '\n', ' ');
    documents.push_back(doc("src/f" + std::to_string(i) + ".c", std::move(text)));
  }
  return documents;
}

// The progress reported during a piece of work.
struct Parts {
  std::vector<double> told = {};
  std::thread::id thread = std::this_thread::get_id();

  auto taker() {
    return [this](double part) {
      CHECK(std::this_thread::get_id() == thread);
      told.push_back(part);
    };
  }
  void check_that_they_rise() const {
    REQUIRE(told.size() > 10);
    CHECK(std::ranges::is_sorted(told));
    CHECK(told.front() >= 0);
    CHECK(told.front() < 0.1);
    CHECK(told.back() > 0.5);
    CHECK(told.back() <= 1);
  }
};

inline std::vector<std::uint32_t> keys_of(std::string_view text) {
  std::vector<std::uint32_t> keys;
  for (std::size_t i = 2; i < text.size(); ++i)
    keys.push_back(key_of(static_cast<unsigned char>(text[i - 2]),
                          static_cast<unsigned char>(text[i - 1]),
                          static_cast<unsigned char>(text[i])));
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

inline void check_against_reference(const Segment& segment,
                                    const std::vector<Document>& documents) {
  REQUIRE(segment.file_count() == documents.size());
  std::map<std::string, std::string> texts;
  for (const auto& document : documents) texts[document.path] = document.text;
  std::vector<std::vector<std::uint32_t>> lists(key_count);
  std::uint32_t blocks = 0;
  for (std::uint32_t place = 0; place < segment.file_count(); ++place) {
    auto file = segment.file(place);
    CHECK(segment.text(place) == texts.at(std::string(file.path)));
    std::string joined;
    REQUIRE(file.first_block == blocks);
    blocks += file.block_count;
    for (std::uint32_t i = 0; i < file.block_count; ++i) {
      auto block = segment.block(file.first_block + i);
      CHECK(block.file == place);
      CHECK(block.first_line == 1 + std::count(joined.begin(), joined.end(), '\n'));
      CHECK((joined.empty() || joined.back() == '\n'));
      CHECK(!block.text.empty());
      bool is_ascii =
          std::none_of(block.text.begin(), block.text.end(), [](char c) { return c < 0; });
      CHECK(((block.flags & block_ascii) != 0) == is_ascii);
      joined += block.text;
      if (segment.has_index())
        for (auto key : keys_of(block.text)) lists[key].push_back(file.first_block + i);
    }
    CHECK(joined == segment.text(place));
  }
  CHECK(segment.block_count() == blocks);
  if (!segment.has_index()) return;
  std::mt19937 random(5);
  for (std::uint32_t key = 0; key < key_count; ++key) {
    const auto& expected = lists[key];
    std::vector<std::uint32_t> places{7, 7, 7};
    if (segment.posting_count(key) != expected.size()) FAIL_CHECK("count of key ", key);
    segment.decode_postings(key, places);
    if (places != expected) FAIL_CHECK("list of key ", key);
    if (key % 128 != 0) continue;
    std::vector<std::uint32_t> candidates, both;
    for (std::uint32_t block = 0; block < blocks; block += 1 + random() % 40)
      candidates.push_back(block);
    std::set_intersection(candidates.begin(), candidates.end(), expected.begin(), expected.end(),
                          std::back_inserter(both));
    segment.intersect(key, candidates);
    if (candidates != both) FAIL_CHECK("intersection with key ", key);
  }
}

}  // namespace warren::search
