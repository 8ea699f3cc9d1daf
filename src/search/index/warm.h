#pragma once
// The warm tier: a segment that keeps its text compressed, in less than half of the memory.
//
//   text    |frame|frame|frame|…   LZ4, each about 64 KB of whole blocks
//   frames  FrameEntry             where each begins, and with which block; one more ends the last
//
// Queries are the same. A candidate block costs about 20 us more, for its frame is unpacked first,
// into one of 32 places that each thread keeps (about 2 MB, counted nowhere else).
// Smaller frames would open faster and miss the half: 16 KB ones save 66 % of the text, these 71 %.
#include <memory>
#include <string_view>

#include "search/index/parts.h"

namespace warren::search {

// The same segment, warm, and hot again. The index and all else is shared.
Result<std::shared_ptr<const Segment>> cooled(const Segment& segment, const BuildTerms& terms);
Result<std::shared_ptr<const Segment>> heated(const Segment& segment, const BuildTerms& terms);

struct FrameEntry {
  std::uint64_t offset;
  std::uint32_t first_block;
  std::uint32_t reserved;
};
static_assert(sizeof(FrameEntry) == 16);

// What Segment::block and Segment::text show.
std::string_view warm_block(const Segment::Parts& parts, std::uint32_t block);
std::string_view warm_text(const Segment::Parts& parts, std::uint32_t file);
bool has_sound_frames(const Segment::Parts& parts);

}  // namespace warren::search
