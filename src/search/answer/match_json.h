#pragma once
// Matches as JSON, with the same members on the command line and over HTTP.
//
// Text that is not valid UTF-8 appears twice: readable, and as base64 under the name with _base64.
// The ranges refer to the latter. In a list such a text is an object, {"text", "text_base64"}.
#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "search/query/search.h"

namespace warren::search {

void put_text(boost::json::object& object, std::string_view name, const std::string& text);
boost::json::array array_of(const std::vector<std::string>& texts);
boost::json::array array_of(const std::vector<Range>& ranges);

// Adds the members of a file to an object, which may already have others.
void add_members(boost::json::object& object, const FileMatch& file);

}  // namespace warren::search
