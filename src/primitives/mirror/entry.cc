#include "primitives/mirror/entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace warren {

namespace {

// Takes a number and the character that follows it from the front of the text.
std::optional<std::uint64_t> take_number(std::string_view& text, char end) {
  std::uint64_t number = 0;
  auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || at == text.data() + text.size() || *at != end) return {};
  text.remove_prefix(static_cast<std::size_t>(at - text.data()) + 1);
  return number;
}

std::optional<std::string_view> take_word(std::string_view& text) {
  auto end = text.find(' ');
  if (end == text.npos || end == 0) return {};
  auto word = text.substr(0, end);
  text.remove_prefix(end + 1);
  return word;
}

}  // namespace

std::string to_string(const Version& version) {
  return fmt::format("{}-{}", version.epoch, version.sequence);
}

std::optional<Version> parse_version(std::string_view text) {
  auto epoch = take_number(text, '-');
  std::uint64_t sequence = 0;
  auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), sequence);
  if (!epoch || error != std::errc() || at != text.data() + text.size()) return {};
  return Version{*epoch, sequence};
}

std::optional<Tail> parse_tail(std::string_view text) {
  auto id = take_word(text);
  auto version = id ? parse_version(*id) : std::nullopt;
  auto stamp = text.substr(0, text.find(' '));
  if (!version || stamp.empty()) return {};
  text.remove_prefix(std::min(text.size(), stamp.size() + 1));
  return Tail{{*version, std::string(stamp)}, std::string(text)};
}

namespace mirror {

std::optional<Packer::Place> Packer::add(const KeyChange& change) {
  std::string_view value = change.value.value_or("");
  fmt::format_to(std::back_inserter(packed_), "{}{} {} ", change.value ? '=' : '-',
                 change.key.size(), value.size());
  packed_ += change.key;
  packed_ += value;
  if (!change.value) return {};
  return Place{packed_.size() - value.size() + 1, packed_.size()};
}

std::optional<std::vector<KeyChange>> unpack(std::string_view packed) {
  std::vector<KeyChange> changes;
  while (!packed.empty()) {
    char what = packed[0];
    packed.remove_prefix(1);
    auto key = take_number(packed, ' ');
    auto value = take_number(packed, ' ');
    if ((what != '=' && what != '-') || !key || !value || *key > packed.size() ||
        *value > packed.size() - *key)
      return {};
    KeyChange change{packed.substr(0, *key), {}};
    if (what == '=') change.value = packed.substr(*key, *value);
    packed.remove_prefix(*key + *value);
    changes.push_back(change);
  }
  return changes;
}

std::optional<Entry> parse_push(std::string_view payload) {
  auto id = take_word(payload);
  auto before = take_word(payload);
  auto stamp = take_word(payload);
  auto version = id ? parse_version(*id) : std::nullopt;
  if (!version || !before || !stamp) return {};
  return Entry{{*version, std::string(*stamp)}, std::string(*before), std::string(payload)};
}

}  // namespace mirror
}  // namespace warren
