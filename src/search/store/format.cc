#include "search/store/format.h"

#include <algorithm>
#include <cstring>

#include "search/index/checksum.h"
#include "search/index/postings.h"
#include "search/index/symbols.h"
#include "search/index/warm.h"
#include "search/source/classify.h"

namespace warren::search {

namespace {

constexpr std::size_t most_blob_bytes = 64;

void put(std::string& out, std::uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void put(std::string& out, const std::string& text) {
  put(out, text.size());
  out += text;
}

struct Taker {
  std::string_view rest;
  bool is_good = true;

  std::uint64_t number() {
    std::uint64_t value = 0;
    is_good = is_good && rest.size() >= sizeof value;
    if (!is_good) return 0;
    std::memcpy(&value, rest.data(), sizeof value);
    rest.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    auto size = number();
    is_good = is_good && size <= rest.size();
    if (!is_good) return {};
    std::string value(rest.substr(0, size));
    rest.remove_prefix(size);
    return value;
  }
};

std::string pack(const Segment::Parts& parts) {
  const auto& source = parts.source;
  std::string out;
  put(out, source.name);
  put(out, source.version);
  put(out, source.branches.size());
  for (const auto& branch : source.branches) put(out, branch);
  put(out, source.skipped.size());
  for (const auto& [path, reason, blob] : source.skipped) {
    put(out, path);
    put(out, reason);
    put(out, blob);
  }
  put(out, parts.dead.size());
  for (auto bits : parts.dead) put(out, bits);
  return out;
}

bool unpack(std::string_view packed, Segment::Parts& parts) {
  Taker from{packed};
  auto& source = parts.source;
  source.name = from.text();
  source.version = from.text();
  for (auto count = from.number(); count > 0 && from.is_good; --count)
    source.branches.push_back(from.text());
  for (auto count = from.number(); count > 0 && from.is_good; --count) {
    auto& skipped = source.skipped.emplace_back();
    skipped.path = from.text();
    skipped.reason = from.text();
    skipped.blob = from.text();
  }
  auto dead = from.number();
  from.is_good = from.is_good && dead <= from.rest.size() / sizeof(std::uint64_t);
  if (from.is_good) parts.dead.reserve(dead);
  for (auto count = dead; count > 0 && from.is_good; --count) parts.dead.push_back(from.number());
  source.branches.shrink_to_fit();
  source.skipped.shrink_to_fit();
  return from.is_good && from.rest.empty();
}

std::uint64_t checksum_of(const SegmentHead& head) {
  std::array<std::byte, page_bytes> page{};
  auto copy = head;
  copy.checksum = 0;
  std::memcpy(page.data(), &copy, sizeof copy);
  return search::checksum_of(page);
}

bool has_right_sizes(const SegmentHead& head) {
  auto size = head.file_bytes;
  if (size % page_bytes != 0 || head.source_bytes > size) return false;
  auto expected = page_bytes + in_pages(head.source_bytes);
  for (auto bytes : head.sizes) {
    if (bytes > size || expected > size) return false;
    expected += in_pages(bytes);
  }
  return expected == size;
}

}  // namespace

std::uint64_t checksum_of(std::span<const std::byte> pages) {
  Checksum sum;
  sum.add(pages.data(), pages.size());
  return sum.value();
}

std::uint64_t checksum_of(const Section& section) {
  return checksum_of(std::span(section.data, section.memory()));
}

Section noted(Section section) {
  if (!section.noted) section.noted = checksum_of(section);
  return section;
}

std::vector<std::byte> front_of(const Segment::Parts& parts) {
  auto source = pack(parts);
  std::vector<std::byte> front(page_bytes + in_pages(source.size()));
  std::memcpy(front.data() + page_bytes, source.data(), source.size());
  SegmentHead head;
  head.blob_bytes = parts.blob_bytes;
  head.is_warm = parts.is_warm ? 1 : 0;
  head.source_bytes = source.size();
  head.source_checksum = checksum_of(std::span(front).subspan(page_bytes));
  head.file_bytes = front.size();
  for (std::size_t i = 0; i < section_count; ++i) {
    const auto& section = parts.sections[i];
    head.sizes[i] = section.size;
    head.checksums[i] = section.noted ? *section.noted : checksum_of(section);
    head.file_bytes += section.memory();
  }
  head.checksum = checksum_of(head);
  std::memcpy(front.data(), &head, sizeof head);
  return front;
}

Result<SegmentHead> read_head(std::span<const std::byte> page) {
  SegmentHead head;
  if (page.size() < page_bytes) return fail(Errc::invalid, "is not a segment");
  std::memcpy(&head, page.data(), sizeof head);
  if (head.magic != SegmentHead().magic) return fail(Errc::invalid, "is not a segment");
  if (head.version != format_version)
    return fail(Errc::invalid, "is a segment of format {}, and only {} is read: make it anew",
                head.version - '0', format_version - '0');
  bool is_blank = std::all_of(page.begin() + sizeof head, page.begin() + page_bytes,
                              [](std::byte byte) { return byte == std::byte{0}; });
  if (!is_blank || head.checksum != checksum_of(head) || head.is_warm > 1)
    return fail(Errc::invalid, "is damaged in its head");
  if (!has_right_sizes(head)) return fail(Errc::invalid, "has sizes that do not add up");
  return head;
}

Result<> read_source(const SegmentHead& head, std::span<const std::byte> pages,
                     Segment::Parts& parts) {
  parts.blob_bytes = head.blob_bytes;
  parts.is_warm = head.is_warm != 0;
  std::string_view source(reinterpret_cast<const char*>(pages.data()), head.source_bytes);
  if (!unpack(source, parts)) return fail(Errc::invalid, "is damaged in its source");
  return ok;
}

// Checks everything that readers rely on.
bool is_sound(const Segment::Parts& parts) {
  const auto& files_section = parts.at(SectionKind::files);
  if (files_section.size < sizeof(FileEntry) || files_section.size % sizeof(FileEntry) != 0)
    return false;
  if (parts.blob_bytes > most_blob_bytes) return false;
  if (parts.at(SectionKind::blocks).size % sizeof(BlockEntry) != 0) return false;
  auto files = parts.files();
  auto blocks = parts.blocks();
  auto count = files.size() - 1;
  if (files[0].first_block != 0 || files[0].path != 0) return false;
  auto text_size = files[count].offset + text_slack;
  if (!parts.is_warm && parts.at(SectionKind::text).size != text_size) return false;
  if (parts.at(SectionKind::paths).size != files[count].path) return false;
  if (parts.at(SectionKind::blobs).size != count * parts.blob_bytes) return false;
  if (parts.at(SectionKind::branches).size != count * parts.branch_bytes()) return false;
  if (!parts.dead.empty() && parts.dead.size() < (count + 63) / 64) return false;
  if (blocks.size() != files[count].first_block || files[0].offset != text_slack) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto &file = files[i], &next = files[i + 1];
    if (next.path < file.path || next.first_block < file.first_block ||
        next.offset != file.offset + file.size + 1 || file.language >= language_count() ||
        file.file_class > FileClass::generated)
      return false;
    // Every text begins with a block: finding a line's number relies on that.
    if ((file.size > 0) != (next.first_block > file.first_block)) return false;
    if (file.size > 0 &&
        (file.first_block >= blocks.size() || blocks[file.first_block].offset() != file.offset))
      return false;
    auto begin = file.offset;
    for (auto block = file.first_block; block < next.first_block && block < blocks.size();
         ++block) {
      auto offset = blocks[block].offset();
      if (blocks[block].file != i || offset < begin || offset >= file.offset + file.size)
        return false;
      begin = offset + 1;
    }
  }
  return has_sound_postings(parts) && has_sound_symbols(parts) &&
         (!parts.is_warm || has_sound_frames(parts));
}

}  // namespace warren::search
