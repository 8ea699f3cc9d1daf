#include "primitives/catalog/etcd/keys.h"

#include <fmt/format.h>

#include <charconv>

namespace warren::etcd {

namespace {

template <class Number>
std::optional<Number> parse_hex(std::string_view text) {
  Number number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string_view after_slash(std::string_view text) { return text.substr(text.find('/') + 1); }

}  // namespace

std::string Keys::owned_by(std::string_view session) const {
  return fmt::format("{}own/{}/", root, session);
}

std::string Keys::own(std::string_view session, std::string_view key) const {
  return owned_by(session).append(key);
}

// Keys ascend and ranks descend. Flipping the sign makes negative ranks sort below the others.
std::string Keys::offer(std::int64_t rank, std::string_view key) const {
  auto ascending = static_cast<std::uint64_t>(rank) ^ (std::uint64_t(1) << 63);
  return fmt::format("{}{:016x}/{}", offers(), ~ascending, key);
}

std::string after_prefix(std::string prefix) {
  ++prefix.back();
  return prefix;
}

std::string_view key_of_offer(std::string_view offer) { return after_slash(offer); }

std::string place_of(std::int64_t seconds, std::int64_t revision, std::string_view key) {
  return fmt::format("{:010}/{:016x}/{}", seconds, revision, key);
}

std::string_view length_of_place(std::string_view place) {
  return place.substr(0, place.find('/'));
}

std::string_view key_of_place(std::string_view place) { return after_slash(after_slash(place)); }

std::int64_t wait_seconds(std::chrono::milliseconds wait) {
  constexpr std::int64_t longest = 31'536'000;  // a year
  auto seconds =
      std::min<std::int64_t>(std::chrono::ceil<std::chrono::seconds>(wait).count(), longest);
  std::int64_t step = 1;
  while (seconds > 99 * step) step *= 10;
  return std::max<std::int64_t>((seconds + step - 1) / step * step, 1);
}

NodeSession session_of(std::string_view name, std::int64_t lease) {
  return fmt::format("{}/{:016x}", name, lease);
}

std::optional<std::int64_t> lease_of(std::string_view session) {
  auto slash = session.find('/');
  if (slash == std::string_view::npos || session.size() - slash != 17) return std::nullopt;
  auto lease = parse_hex<std::int64_t>(session.substr(slash + 1));
  return lease && *lease > 0 ? lease : std::nullopt;
}

std::string to_string(const Position& position) {
  return fmt::format("{:x}-{:x}", position.cluster, position.revision);
}

std::optional<Position> parse_position(std::string_view text) {
  auto dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  auto cluster = parse_hex<std::uint64_t>(text.substr(0, dash));
  auto revision = parse_hex<std::int64_t>(text.substr(dash + 1));
  if (!cluster || !revision || *revision < 0) return std::nullopt;
  return Position{*cluster, *revision};
}

}  // namespace warren::etcd
