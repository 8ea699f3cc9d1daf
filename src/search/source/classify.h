#pragma once
// Detects what kind of file something is, from its name and its first bytes.
#include <cstdint>
#include <string_view>

#include "search/index/segment.h"

namespace warren::search {

FileClass file_class_of(std::string_view path, std::string_view text);
// An index into a table that only grows. 0 means unknown.
std::uint16_t language_of(std::string_view path, std::string_view text);
std::string_view language_name(std::uint16_t language);
std::uint16_t language_count();

}  // namespace warren::search
