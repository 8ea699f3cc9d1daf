#pragma once
// Maps names to languages: lang:cpp means C++.
#include <optional>
#include <string>
#include <string_view>

namespace warren::search {

bool is_language(std::string_view language, std::string_view word);
// Whether this word names a language that files can have.
bool is_known_language(std::string_view word);
std::optional<std::string> nearest_language(std::string_view word);

}  // namespace warren::search
