#pragma once
// The text of a warm segment.
#include <string_view>

#include "search/parts.h"

namespace warren::search {

std::string_view warm_block(const Segment::Parts& parts, std::uint32_t block);
std::string_view warm_text(const Segment::Parts& parts, std::uint32_t file);

}  // namespace warren::search
