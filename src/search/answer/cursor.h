#pragma once
// Where a page of results ended. Opaque to clients. It is valid only for the same query on the same
// versions (on any machine), and a cursor that was tampered with is refused.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "search/answer/standing.h"

namespace warren::search {

struct ParsedQuery;
struct SearchTerms;

struct Cursor {
  std::uint64_t asked = 0;     // a hash of the query
  std::uint64_t versions = 0;  // a sum over all repositories
  double score = 0;
  std::string repo = {}, path = {}, blob = {};

  Standing standing() const { return {score, repo, path, blob}; }
};
std::string to_string(const Cursor& cursor);
// Errc::invalid: it is damaged, or belongs to another query.
Result<Cursor> parse_cursor(std::string_view text, std::uint64_t asked);
// Errc::invalid: the texts have changed since the cursor's page.
Result<> check_versions(const Cursor& cursor, std::uint64_t versions);

// Hashes what is asked for, and in which order.
std::uint64_t hash_of(const ParsedQuery& query, const SearchTerms& terms);
std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 14695981039346656037u);

}  // namespace warren::search
