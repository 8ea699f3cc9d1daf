#pragma once
// Memory of segments: what they take, exactly, and what one will take before any text is read.
#include <cstddef>
#include <memory>
#include <span>

#include "search/index/segment.h"
#include "search/source/repository.h"

namespace warren::search {

// Of all of them together. What several share (a segment and the same with an index, with symbols,
// warm, or with dead files) counts once, in whole pages. Not counted: frames that threads keep of
// warm segments (see warm.h), and searches that go on.
SegmentMemory memory_of(std::span<const std::shared_ptr<const Segment>> segments);

struct MemoryForecast {
  std::size_t steady = 0;  // of the segment: within 15 %, as measured on source code
  std::size_t peak = 0;    // of a build from empty, the segment included: an upper bound
};
// From sizes and names alone. What will turn out to be binary is told by its name, and counts for
// the peak all the same. Symbols, which come later, take about another `symbols_per_byte`.
MemoryForecast forecast_memory(const Listing& listing, const BuildTerms& terms = {});
inline constexpr double symbols_per_byte = 0.1;

}  // namespace warren::search
