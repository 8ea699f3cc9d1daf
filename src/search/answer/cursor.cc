#include "search/answer/cursor.h"

#include <bit>
#include <cstring>

#include "search/query/search.h"
#include "search/source/blob_id.h"

namespace warren::search {
namespace {

void put(std::string& out, std::uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void put(std::string& out, std::string_view text) {
  put(out, text.size());
  out += text;
}

bool take(std::string_view& rest, std::uint64_t& number) {
  if (rest.size() < sizeof number) return false;
  std::memcpy(&number, rest.data(), sizeof number);
  rest.remove_prefix(sizeof number);
  return true;
}
bool take(std::string_view& rest, std::string& text) {
  std::uint64_t size = 0;
  if (!take(rest, size) || size > rest.size()) return false;
  text = rest.substr(0, size);
  rest.remove_prefix(size);
  return true;
}

bool is_hex(std::string_view text) {
  return text.size() % 2 == 0 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  for (unsigned char c : text) seed = (seed ^ c) * 1099511628211u;
  return (seed ^ text.size()) * 1099511628211u;
}

std::uint64_t hash_of(const ParsedQuery& query, const SearchTerms& terms) {
  auto hash = hash_of(to_string(*query.root), static_cast<std::uint64_t>(query.select));
  if (!query.below.empty()) hash = hash_of(query.below, hash);
  return terms.collapses ? hash_of("collapses", hash) : hash;
}

std::string to_string(const Cursor& cursor) {
  std::string body;
  put(body, cursor.asked);
  put(body, cursor.versions);
  put(body, std::bit_cast<std::uint64_t>(cursor.score));
  put(body, cursor.repo);
  put(body, cursor.path);
  put(body, cursor.blob);
  put(body, hash_of(body));
  return hex_id(body);
}

Result<Cursor> parse_cursor(std::string_view text, std::uint64_t asked) {
  auto whole = is_hex(text) ? raw_id(text) : std::string();
  Cursor cursor;
  std::uint64_t score = 0, hash = 0;
  std::string_view rest = whole;
  bool is_whole = take(rest, cursor.asked) && take(rest, cursor.versions) && take(rest, score) &&
                  take(rest, cursor.repo) && take(rest, cursor.path) && take(rest, cursor.blob);
  auto body = std::string_view(whole).substr(0, whole.size() - rest.size());
  is_whole = is_whole && take(rest, hash) && rest.empty() && hash == hash_of(body);
  if (!is_whole) return fail(Errc::invalid, "the cursor is damaged");
  if (cursor.asked != asked) return fail(Errc::invalid, "the cursor is of another query");
  cursor.score = std::bit_cast<double>(score);
  return cursor;
}

Result<> check_versions(const Cursor& cursor, std::uint64_t versions) {
  if (cursor.versions == versions) return ok;
  return fail(Errc::invalid, "the text has changed since the page of the cursor");
}

}  // namespace warren::search
