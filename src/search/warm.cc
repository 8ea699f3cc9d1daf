#include "search/warm.h"

namespace warren::search {

std::string_view warm_block(const Segment::Parts&, std::uint32_t) { return {}; }
std::string_view warm_text(const Segment::Parts&, std::uint32_t) { return {}; }

}  // namespace warren::search
