#pragma once
// lang:cpp means C++.
#include <string_view>

namespace warren::search {

bool is_language(std::string_view language, std::string_view word);

}  // namespace warren::search
