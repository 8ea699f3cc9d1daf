#include "search/query/cursor.h"

#include <bit>
#include <charconv>

namespace warren::search {
namespace {

std::string body_of(const Cursor& cursor) {
  return fmt::format("{:016x}{:016x}{:08x}{:08x}", cursor.asked,
                     std::bit_cast<std::uint64_t>(cursor.score), cursor.segment, cursor.file);
}
constexpr std::size_t body_size = 48;

bool read(std::string_view text, std::uint64_t& into) {
  const char *begin = text.data(), *last = begin + text.size();
  auto [end, error] = std::from_chars(begin, last, into, 16);
  return error == std::errc() && end == last;
}

}  // namespace

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  for (unsigned char c : text) seed = (seed ^ c) * 1099511628211u;
  return (seed ^ text.size()) * 1099511628211u;
}

std::string to_string(const Cursor& cursor) {
  auto body = body_of(cursor);
  return body + fmt::format("{:016x}", hash_of(body));
}

Result<Cursor> parse_cursor(std::string_view text, std::uint64_t asked) {
  std::uint64_t hash = 0, score = 0, segment = 0, file = 0;
  Cursor cursor;
  bool is_whole = text.size() == body_size + 16 && read(text.substr(body_size), hash) &&
                  hash == hash_of(text.substr(0, body_size)) &&
                  read(text.substr(0, 16), cursor.asked) && read(text.substr(16, 16), score) &&
                  read(text.substr(32, 8), segment) && read(text.substr(40, 8), file);
  if (!is_whole) return fail(Errc::invalid, "the cursor is damaged");
  if (cursor.asked != asked)
    return fail(Errc::invalid, "the cursor is of another query, or the text has changed since");
  cursor.score = std::bit_cast<double>(score);
  cursor.segment = static_cast<std::uint32_t>(segment);
  cursor.file = static_cast<std::uint32_t>(file);
  return cursor;
}

}  // namespace warren::search
