#include "search/warm.h"

namespace warren::search {

std::string_view warm_block(const Segment::Parts&, std::uint32_t) { return {}; }
bool has_sound_frames(const Segment::Parts&) { return false; }
std::uint64_t new_identity() { return 0; }
std::string_view warm_text(const Segment::Parts&, std::uint32_t) { return {}; }

}  // namespace warren::search
