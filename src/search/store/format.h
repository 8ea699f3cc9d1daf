#pragma once
// The layout of a segment outside of memory, in a file or in transit to another machine:
//
//   head      one page: version, sizes, a checksum of each part and of itself
//   source    name, version, branches, files left out, dead files; in whole pages
//   sections  as they are in memory, each in whole pages, so that a file of them can be mapped
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/index/parts.h"

namespace warren::search {

inline constexpr std::uint8_t format_version = '2';

struct SegmentHead {
  std::array<char, 7> magic = {'w', 'r', 'r', 'n', 's', 'e', 'g'};
  std::uint8_t version = format_version;  // differs for every layout
  std::uint64_t checksum = 0;             // of this page with this word set to 0
  std::uint64_t file_bytes = 0;           // in total
  std::uint64_t blob_bytes = 0;
  std::uint64_t is_warm = 0;
  std::uint64_t source_bytes = 0, source_checksum = 0;
  std::array<std::uint64_t, section_count> sizes{}, checksums{};
};
static_assert(sizeof(SegmentHead) <= page_bytes);

// The head and the source of a segment, as they are written. Trusts noted checksums and computes
// the others.
std::vector<std::byte> front_of(const Segment::Parts& parts);

// Parses a page as a head. Errc::invalid: not a head, of another version, damaged, or with
// inconsistent sizes.
Result<SegmentHead> read_head(std::span<const std::byte> page);
// Reads everything that is not a section. Errc::invalid: it is not as it was written.
Result<> read_source(const SegmentHead& head, std::span<const std::byte> pages,
                     Segment::Parts& parts);
// Whether readers can rely on it. This makes a segment with right checksums and wrong contents
// harmless too.
bool is_sound(const Segment::Parts& parts);

std::uint64_t checksum_of(std::span<const std::byte> pages);
std::uint64_t checksum_of(const Section& section);  // over its pages
// The same section with its checksum.
Section noted(Section section);

}  // namespace warren::search
