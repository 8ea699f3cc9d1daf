#include "search/store/stream.h"

#include <fstream>
#include <iterator>

#include "proof/testkit/temp_folder.h"
#include "search/index/symbols.h"
#include "search/index/test_texts.h"
#include "search/index/warm.h"
#include "search/query/search.h"
#include "search/store/verify.h"

namespace warren::search {
namespace {

constexpr std::uint64_t plenty = 1u << 30;

using Bytes = std::vector<std::byte>;

Bytes written(const std::shared_ptr<const Segment>& segment) {
  Bytes all;
  auto sink = [&](std::span<const std::byte> bytes) {
    CHECK(bytes.size() <= SegmentSender::piece);
    all.insert(all.end(), bytes.begin(), bytes.end());
    return Result<>(ok);
  };
  REQUIRE(write_segment(segment, sink));
  return all;
}

Result<std::shared_ptr<const Segment>> received(std::span<const std::byte> bytes,
                                                std::uint64_t most = plenty) {
  ByteSource source = [&](std::span<std::byte> into) -> Result<std::size_t> {
    auto some = std::min(into.size(), bytes.size());
    std::copy_n(bytes.begin(), some, into.begin());
    bytes = bytes.subspan(some);
    return some;
  };
  return read_segment(source, most);
}

bool is_refused(std::span<const std::byte> bytes) {
  auto segment = received(bytes);
  return !segment && segment.error().code == Errc::invalid;
}

std::shared_ptr<const Segment> of_kind(std::mt19937& random, std::string_view kind) {
  auto segment = build(random_documents(random, 90, 30'000));
  REQUIRE(segment->has_index());
  if (kind == "warm") return *cooled(*segment, {});
  if (kind == "symbols") return *with_symbols(segment);
  return segment;
}

TEST_CASE("a segment is the same after a stream, in whatever pieces it comes") {
  std::mt19937 random(21);
  auto documents = random_documents(random, 90, 30'000);
  auto segment = build(documents);
  auto bytes = written(segment);
  SegmentSender sender(segment);
  CHECK(sender.bytes() == bytes.size());
  SegmentReceiver receiver(plenty);
  for (std::size_t at = 0; at < bytes.size();) {
    CHECK(!receiver.is_whole());
    auto some = std::min<std::size_t>(1 + random() % 9000, bytes.size() - at);
    REQUIRE(receiver.take(std::span(bytes).subspan(at, some)));
    at += some;
    CHECK(receiver.received() == at);
  }
  CHECK(receiver.is_whole());
  CHECK(receiver.expected() == bytes.size());
  auto got = receiver.finish();
  REQUIRE(got);
  check_against_reference(**got, documents);
  CHECK((*got)->name() == segment->name());
  CHECK((*got)->memory().total() == segment->memory().total());
  CHECK(written(*got) == bytes);
}

TEST_CASE("a stream is a file: one may be saved and the other loaded") {
  TempFolder folder;
  std::mt19937 random(22);
  auto path = folder.path() / "a.seg";
  auto segment = of_kind(random, "symbols");
  REQUIRE(segment->save(path.string()));
  std::ifstream file(path, std::ios::binary);
  std::string saved{std::istreambuf_iterator<char>(file), {}};
  auto bytes = written(segment);
  CHECK(saved == std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

TEST_CASE("tiny, empty and warm segments and those with symbols are streamed too") {
  std::mt19937 random(23);
  // ctags finds nothing in it.
  auto without_any = *with_symbols(build({doc("README", "nothing but words\n")}));
  CHECK(without_any->has_symbols());
  for (const auto& segment : {build({}), build({doc("a.c", "int a;\n")}), of_kind(random, "warm"),
                              of_kind(random, "symbols"), without_any}) {
    auto bytes = written(segment);
    auto got = received(bytes);
    REQUIRE_MESSAGE(got, (got ? "" : got.error().what));
    CHECK((*got)->file_count() == segment->file_count());
    CHECK((*got)->is_warm() == segment->is_warm());
    CHECK((*got)->has_symbols() == segment->has_symbols());
    for (std::uint32_t i = 0; i < segment->file_count(); ++i)
      CHECK((*got)->text(i) == segment->text(i));
    CHECK(written(*got) == bytes);
  }
}

TEST_CASE("a stream that is cut off, longer, damaged in any bit or something else is refused") {
  std::mt19937 random(24);
  auto good = written(of_kind(random, "symbols"));
  REQUIRE(received(good));
  CHECK(is_refused({}));
  CHECK(is_refused(Bytes(10'000, std::byte{'x'})));
  for (int i = 0; i < 40; ++i) CHECK(is_refused(std::span(good).first(random() % good.size())));
  SegmentReceiver longer(plenty);
  REQUIRE(longer.take(good));
  Bytes more(1);
  CHECK(longer.take(more).error().code == Errc::invalid);
  CHECK(longer.finish().error().code == Errc::invalid);
  for (int i = 0; i < 200; ++i) {
    auto bad = good;
    auto place = random() % (i % 3 == 0 ? sizeof(SegmentHead) : bad.size());
    bad[place] ^= std::byte{static_cast<unsigned char>(1u << (random() % 8))};
    CAPTURE(place);
    CHECK(is_refused(bad));
  }
}

TEST_CASE(
    "another format and a segment beyond the bound are refused by their heads, with the reason") {
  std::mt19937 random(25);
  auto bytes = written(of_kind(random, ""));
  auto other = bytes;
  other[7] = std::byte{'1'};
  auto refused = received(other);
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::invalid);
  CHECK(refused.error().what ==
        "what was received is a segment of format 1, and only 2 is read: make it anew");
  auto large = received(std::span(bytes).first(page_bytes), bytes.size() - 1);
  REQUIRE(!large);
  CHECK(large.error().code == Errc::overloaded);
  CHECK(received(bytes, bytes.size()));
}

// Has valid checksums, whatever its contents.
Bytes forged(Bytes bytes, const SegmentHead& head) {
  auto sum = [&](std::size_t at, std::size_t size) {
    return size <= bytes.size() && at <= bytes.size() - size
               ? checksum_of(std::span(bytes).subspan(at, size))
               : 0;
  };
  SegmentHead made = head;
  std::size_t at = page_bytes;
  made.source_checksum = sum(at, in_pages(made.source_bytes));
  at += in_pages(made.source_bytes);
  for (std::size_t i = 0; i < section_count; ++i) {
    made.checksums[i] = sum(at, in_pages(made.sizes[i]));
    at += in_pages(made.sizes[i]);
  }
  made.checksum = 0;
  std::memcpy(bytes.data(), &made, sizeof made);
  made.checksum = sum(0, page_bytes);
  std::memcpy(bytes.data(), &made, sizeof made);
  return bytes;
}

TEST_CASE("what was made to deceive is refused or harmless") {
  std::mt19937 random(26);
  int refused = 0, taken = 0;
  for (std::string_view kind : {"", "warm", "symbols"}) {
    auto good = written(of_kind(random, kind));
    auto head = *read_head(good);
    REQUIRE(received(forged(good, head)));
    std::size_t front = page_bytes + in_pages(head.source_bytes);
    for (int round = 0; round < 150; ++round) {
      auto bad = good;
      // A few bytes of one part; each part is chosen equally often.
      std::size_t begin = page_bytes, size = in_pages(head.source_bytes), at = front;
      auto chosen = random() % (section_count + 1);
      for (std::size_t i = 0; i < section_count; at += in_pages(head.sizes[i++]))
        if (i == chosen && head.sizes[i] > 0) begin = at, size = head.sizes[i];
      for (auto count = 1 + random() % 4; count > 0; --count)
        bad[begin + random() % std::min<std::size_t>(size, round % 2 ? size : 64)] =
            std::byte{static_cast<unsigned char>(random() % 3 ? random() : 0xff)};
      auto got = received(forged(bad, head));
      (got ? taken : refused)++;
      if (!got) {
        CHECK(got.error().code == Errc::invalid);
        continue;
      }
      for (std::string_view text : {"ab", "sym:a", "the.*n", "(?s)a.*b file:c", "f1 select:path"}) {
        auto query = parse_query(text);
        REQUIRE(query);
        std::vector list{*got};
        auto answer = search(list, *query, {.context_lines = 1});
        CHECK((answer || answer.error().code == Errc::invalid));
      }
      for (std::uint32_t key = 0; key < key_count; key += 97) (*got)->posting_count(key);
    }
  }
  CHECK(refused > 50);
  CHECK(taken > 20);
}

TEST_CASE("sizes that would take more memory than there is are refused before it is taken") {
  std::mt19937 random(27);
  auto good = written(of_kind(random, ""));
  auto head = *read_head(good);
  for (std::size_t i = 0; i < section_count; ++i)
    for (std::uint64_t size : {std::uint64_t{1} << 62, UINT64_MAX, UINT64_MAX - page_bytes + 1,
                               std::uint64_t{1} << 40}) {
      auto made = head;
      made.sizes[i] = size;
      CHECK(is_refused(forged(good, made)));
      made.file_bytes += in_pages(size) - in_pages(head.sizes[i]);
      auto got = received(forged(good, made));
      REQUIRE(!got);
      CHECK((got.error().code == Errc::invalid || got.error().code == Errc::overloaded));
    }
  auto made = head;
  made.blob_bytes = std::uint64_t{1} << 60;
  CHECK(is_refused(forged(good, made)));
  made = head;
  made.source_bytes = head.file_bytes;
  CHECK(is_refused(forged(good, made)));
}

TEST_CASE("a byte that changes in memory is found in its section, and in no other") {
  std::mt19937 random(28);
  for (std::string_view kind : {"", "warm", "symbols"}) {
    auto built = of_kind(random, kind);
    CHECK(verify(*built, SectionKind::text).error().code == Errc::not_found);
    auto segment = sealed(built);
    CHECK(sealed(segment) == segment);
    CHECK(segment->parts().at(SectionKind::text).data == built->parts().at(SectionKind::text).data);
    auto got = received(written(segment));
    REQUIRE(got);
    for (const auto& one : {segment, *got})
      for (std::size_t i = 0; i < section_count; ++i) {
        const auto& section = one->parts().sections[i];
        CHECK(verify(*one, static_cast<SectionKind>(i)));
        if (section.size == 0) continue;
        auto& byte = section.region->data()[random() % section.size];
        byte ^= std::byte{4};
        for (std::size_t other = 0; other < section_count; ++other) {
          auto result = verify(*one, static_cast<SectionKind>(other));
          CHECK(result.has_value() == (other != i));
          if (other == i) CHECK(result.error().code == Errc::invalid);
        }
        byte ^= std::byte{4};
      }
  }
}

}  // namespace
}  // namespace warren::search
