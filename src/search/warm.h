#pragma once
// The text of a warm segment.
#include <string_view>

#include "search/parts.h"

namespace warren::search {

std::string_view warm_block(const Segment::Parts& parts, std::uint32_t block);
bool has_sound_frames(const Segment::Parts& parts);
std::uint64_t new_identity();
std::string_view warm_text(const Segment::Parts& parts, std::uint32_t file);

}  // namespace warren::search
