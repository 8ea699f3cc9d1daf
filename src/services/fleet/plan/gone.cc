#include "services/fleet/plan/gone.h"

#include <algorithm>
#include <boost/json.hpp>

#include "services/fleet/plan/records.h"

namespace warren::fleet {

namespace {

constexpr std::string_view gone_ending = "#gone";
// Behind every repository on offer, so that it takes the place of none.
constexpr std::int64_t behind_all = -1'000'000'000'000'000;
constexpr std::chrono::milliseconds longest_wait = 24h;  // that a catalog takes

}  // namespace

// A key of a repository has a number there.
std::string gone_key(std::string_view repo) { return std::string(repo).append(gone_ending); }

std::optional<std::string_view> repo_of_gone(std::string_view key) {
  if (!key.ends_with(gone_ending) || key.size() == gone_ending.size()) return std::nullopt;
  return key.substr(0, key.size() - gone_ending.size());
}

Row gone_row(std::string_view repo) {
  return {.key = gone_key(repo), .spec = "{}", .rank = behind_all};
}

std::string to_json(const Gone& gone) {
  return boost::json::serialize(
      boost::json::object{{"url", gone.url}, {"why", gone.why}, {"left_ms", gone.left.count()}});
}

std::optional<Gone> parse_gone(std::string_view note) {
  boost::system::error_code error;
  auto value = boost::json::parse(note, error);
  if (error || !value.is_object()) return std::nullopt;
  const auto* url = value.get_object().if_contains("url");
  const auto* why = value.get_object().if_contains("why");
  const auto* left = value.get_object().if_contains("left_ms");
  if (!url || !url->is_string() || !why || !why->is_string() || !left) return std::nullopt;
  auto count = left->to_number<std::int64_t>(error);
  if (error) return std::nullopt;
  return Gone{std::string(url->get_string()), std::string(why->get_string()),
              std::clamp(std::chrono::milliseconds(count), 0ms, most_grace)};
}

std::optional<Release> next_wait(std::string_view note, Gone seen,
                                 std::chrono::milliseconds grace) {
  auto before = parse_gone(note);
  bool counts = before && before->url == seen.url;
  auto rest = counts ? std::min(before->left, grace) : grace;
  if (counts && rest == 0ms) return std::nullopt;
  Release how{.wait = std::min(rest, longest_wait)};
  seen.left = rest - how.wait;
  how.note = to_json(seen);
  return how;
}

std::vector<std::string> keys_of(std::string_view repo) {
  std::vector<std::string> keys{gone_key(repo)};
  for (int slot = 0; slot < most_slots; ++slot) keys.push_back(row_key(repo, slot));
  return keys;
}

}  // namespace warren::fleet
