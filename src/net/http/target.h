#pragma once
// Paths and queries. A path is cut at its slashes first and decoded then, so that %2F is part of a
// name and never a way to another route.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warren {

// None: a percent sign without two hex digits, or a NUL. A plus is itself, in queries too: names of
// streams have one (live+demo), and media servers send it as it is.
std::optional<std::string> percent_decoded(std::string_view text);
// All but letters, digits and -._~+ becomes %XX.
std::string percent_encoded(std::string_view text);

// The next part of a path: /a/b -> a, and the rest is /b. Empty at the end.
std::string_view next_part(std::string_view& path);

// The first value of that name; none: it is not there. One that cannot be decoded is empty.
std::optional<std::string> query_value(std::string_view query, std::string_view name);
// All of them, in order; one that cannot be decoded is none.
std::vector<std::optional<std::string>> query_values(std::string_view query, std::string_view name);
// The query without what has this name, for passing it on.
std::string query_without(std::string_view query, std::string_view name);

}  // namespace warren
