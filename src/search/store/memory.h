#pragma once
// The memory of segments: exactly what they use now, and a forecast before any text is read.
#include <cstddef>
#include <memory>
#include <span>

#include "search/index/segment.h"
#include "search/source/repository.h"

namespace warren::search {

// The total of all of them. Memory that several share (a segment and the same one with an index,
// with symbols, warm, or with dead files) counts once, in whole pages. Not counted: the frames that
// threads keep for warm segments (see warm.h), and running searches.
SegmentMemory memory_of(std::span<const std::shared_ptr<const Segment>> segments);

struct MemoryForecast {
  std::size_t steady = 0;  // of the segment: within 15 %, as measured on source code
  std::size_t peak = 0;    // of a build from scratch, including the segment: an upper bound
};
// Based only on sizes and names. Binary files are recognised by name, but still count for the peak.
// Symbols come later and take about another `symbols_per_byte`.
MemoryForecast forecast_memory(const Listing& listing, const BuildTerms& terms = {});
inline constexpr double symbols_per_byte = 0.1;

}  // namespace warren::search
