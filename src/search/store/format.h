#pragma once
// The layout of a segment outside of memory, in a file or on the way to another machine:
//
//   head      one page: version, sizes, a checksum of each part and of itself
//   source    name, version, branches, what was left out, dead files; in whole pages
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
  std::uint8_t version = format_version;  // another one for another layout
  std::uint64_t checksum = 0;             // of this page with this word being 0
  std::uint64_t file_bytes = 0;           // of all
  std::uint64_t blob_bytes = 0;
  std::uint64_t is_warm = 0;
  std::uint64_t source_bytes = 0, source_checksum = 0;
  std::array<std::uint64_t, section_count> sizes{}, checksums{};
};
static_assert(sizeof(SegmentHead) <= page_bytes);

// The head and the source of a segment, as they are written. Takes noted checksums for granted, and
// computes the others.
std::vector<std::byte> front_of(const Segment::Parts& parts);

// A page that may be a head. Errc::invalid: it is none, of another version, or damaged; or the sizes
// do not add up.
Result<SegmentHead> read_head(std::span<const std::byte> page);
// Takes all that is not a section. Errc::invalid: it is not as it was written.
Result<> read_source(const SegmentHead& head, std::span<const std::byte> pages,
                     Segment::Parts& parts);
// Whether readers can rely on it, so that something with right checksums and wrong contents is
// harmless too.
bool is_sound(const Segment::Parts& parts);

std::uint64_t checksum_of(std::span<const std::byte> pages);
std::uint64_t checksum_of(const Section& section);  // of its pages
// The same section with its checksum.
Section noted(Section section);

}  // namespace warren::search
