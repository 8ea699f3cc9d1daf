#include "primitives/catalog/catalog.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace warren {

namespace {

constexpr std::array<std::string_view, 5> state_names{"free", "claimed", "ready", "draining",
                                                      "failed"};

// Keys and names are shown on terminals and are parts of other keys.
bool is_printable_word(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

std::string_view name(RowState state) { return state_names.at(static_cast<std::size_t>(state)); }

std::optional<RowState> parse_row_state(std::string_view text) {
  auto found = std::ranges::find(state_names, text);
  if (found == state_names.end()) return std::nullopt;
  return static_cast<RowState>(found - state_names.begin());
}

std::string_view node_name(std::string_view session) {
  return session.substr(0, session.find('/'));
}

Result<> check_text(std::string_view what, std::string_view text) {
  if (text.size() > most_row_text)
    return fail(Errc::invalid, "{} has {} bytes: use at most {}", what, text.size(), most_row_text);
  // PostgreSQL stores neither, so no other engine may accept them.
  if (text.find('\0') != std::string_view::npos || valid_utf8(text) != text)
    return fail(Errc::invalid, "{} is not UTF-8 text without NUL", what);
  return ok;
}

Result<> check_node(std::string_view name, std::string_view info, std::chrono::milliseconds ttl) {
  if (name.empty() || name.size() > 128 || !is_printable_word(name) ||
      name.find('/') != std::string_view::npos)
    return fail(
        Errc::invalid,
        "invalid node name: use 1 to 128 printable ASCII characters without spaces or \"/\"");
  if (ttl < least_node_ttl || ttl > 1h)
    return fail(Errc::invalid, "ttl {} ms of a node: use 1 s to 1 h", ttl.count());
  return check_text("what a node says of itself", info);
}

Result<> check_rank(std::int64_t rank) {
  constexpr std::int64_t most = 1'000'000'000'000'000;  // what a double stores exactly
  if (rank < -most || rank > most)
    return fail(Errc::invalid, "rank {} of a row: use -10^15 to 10^15", rank);
  return ok;
}

Result<> check_row(const Row& row) {
  if (row.key.empty() || row.key.size() > most_row_key || !is_printable_word(row.key))
    return fail(Errc::invalid,
                "invalid row key: use 1 to {} printable ASCII characters without spaces",
                most_row_key);
  if (auto rank = check_rank(row.rank); !rank) return rank;
  return check_text("the spec of a row", row.spec);
}

Result<> check_change(const RowChange& change) {
  if (auto rank = check_rank(change.rank.value_or(0)); !rank) return rank;
  return check_text("the spec of a row", change.spec.value_or(""));
}

Result<> check_write(RowState state, const std::optional<std::string>& note) {
  if (state == RowState::free || state == RowState::failed)
    return fail(Errc::invalid, "an owner cannot write the state {}: release the row", name(state));
  return check_text("the note of a row", note.value_or(""));
}

Result<> check_release(const Release& how) {
  if (how.wait < 0ms || how.wait > 24h)
    return fail(Errc::invalid, "wait {} ms of a row: use 0 to 24 h", how.wait.count());
  if (auto good = check_text("the error of a row", how.error); !good) return good;
  return check_text("the note of a row", how.note.value_or(""));
}

}  // namespace warren
