#pragma once
// Paths and queries. A path is split at its slashes before it is decoded, so %2F is part of a name
// and never leads to another route.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warren {

// Returns nullopt for a percent sign without two hex digits, or for a NUL. A plus stands for
// itself, even in queries: stream names contain it (live+demo), and media servers send it
// unencoded.
std::optional<std::string> percent_decoded(std::string_view text);
// Everything but letters, digits and -._~+ becomes %XX.
std::string percent_encoded(std::string_view text);

// Takes the next part off a path: from /a/b it returns a and leaves /b. Returns "" at the end.
std::string_view next_part(std::string_view& path);

// The first value of that name, or nullopt if there is none. A value that cannot be decoded is "".
std::optional<std::string> query_value(std::string_view query, std::string_view name);
// All values of that name, in order. A value that cannot be decoded is nullopt.
std::vector<std::optional<std::string>> query_values(std::string_view query, std::string_view name);
// The query without the pairs of this name, to forward it.
std::string query_without(std::string_view query, std::string_view name);

}  // namespace warren
