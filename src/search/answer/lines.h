#pragma once
// Lines of a file as they are shown.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "search/query/search.h"
#include "search/text/literal.h"

namespace warren::search {

std::size_t bytes_of(const LineMatch& match);  // in an answer

// Appends the lines that the spans (sorted, in bytes of the file) touch, with their numbers, cut
// and with context as the terms say. Stops at the terms' number of lines, or when `bytes` are used
// up; subtracts what it used. Returns false if `bytes` was not enough.
bool add_lines(const Segment& segment, std::uint32_t file, std::span<const Span> spans,
               const SearchTerms& terms, std::size_t& bytes, std::vector<LineMatch>& into);

// How many lines of the text the (sorted) spans touch: as many as add_lines() would append.
std::uint64_t touched_lines(std::string_view text, std::span<const Span> spans);

}  // namespace warren::search
