#pragma once
// The warm tier: a segment that keeps its text compressed, in less than half of the memory.
//
//   text    |frame|frame|frame|…   LZ4, each about 64 KB of whole blocks
//   frames  FrameEntry             where each begins, and with which block; one more ends the last
//
// Queries stay the same. A candidate block costs about 20 us more, because its frame is unpacked
// first, into one of 32 slots that each thread keeps (about 2 MB, not counted anywhere else).
// Smaller frames would unpack faster but miss the goal of half: 16 KB frames save 66 % of the text,
// these save 71 %.
#include <memory>
#include <string_view>

#include "search/index/parts.h"

namespace warren::search {

// The same segment, made warm, or hot again. Both share the index and everything else.
Result<std::shared_ptr<const Segment>> cooled(const Segment& segment, const BuildTerms& terms);
Result<std::shared_ptr<const Segment>> heated(const Segment& segment, const BuildTerms& terms);

struct FrameEntry {
  std::uint64_t offset;
  std::uint32_t first_block;
  std::uint32_t reserved;
};
static_assert(sizeof(FrameEntry) == 16);

// What Segment::block and Segment::text return.
std::string_view warm_block(const Segment::Parts& parts, std::uint32_t block);
std::string_view warm_text(const Segment::Parts& parts, std::uint32_t file);
bool has_sound_frames(const Segment::Parts& parts);

}  // namespace warren::search
