#pragma once
// What kind of file something is, from its name and its first bytes.
#include <cstdint>
#include <string_view>

#include "search/index/segment.h"

namespace warren::search {

FileClass file_class_of(std::string_view path, std::string_view text);
// A place in a table that only grows; 0: not known.
std::uint16_t language_of(std::string_view path, std::string_view text);
std::string_view language_name(std::uint16_t language);
std::uint16_t language_count();

}  // namespace warren::search
