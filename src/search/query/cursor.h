#pragma once
// Where a page of results ended. Opaque to whoever carries it; it holds for the same query on the
// same versions only, and one that was changed is refused.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace warren::search {

struct Cursor {
  std::uint64_t asked = 0;  // a hash of the query and of the versions
  double score = 0;
  std::uint32_t segment = 0, file = 0;
};
std::string to_string(const Cursor& cursor);
// Errc::invalid.
Result<Cursor> parse_cursor(std::string_view text, std::uint64_t asked);

std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 14695981039346656037u);

}  // namespace warren::search
