#include "search/keys.h"

#include <algorithm>

#include "base/utf8.h"
#include "search/segment.h"

namespace warren::search {

std::uint32_t count_lines(std::string_view text) {
  std::uint32_t lines = 0;
  // In pieces that a byte can count, so that the compiler counts many bytes at once.
  while (!text.empty()) {
    auto piece = text.substr(0, 255);
    std::uint8_t here = 0;
    for (char c : piece) here = static_cast<std::uint8_t>(here + (c == '\n' ? 1 : 0));
    lines += here;
    text.remove_prefix(piece.size());
  }
  return lines;
}

std::uint8_t block_flags(std::string_view text) {
  unsigned all = 0;
  for (char c : text) all |= static_cast<unsigned char>(c);
  if (all < 0x80) return block_ascii | block_utf8;
  while (!text.empty()) {
    auto [value, length] = first_code_point(text);
    if (value == 0xfffd && length == 1) return 0;
    text.remove_prefix(length);
  }
  return block_utf8;
}

KeyCollector::KeyCollector() : seen_(key_count / 64) {}

std::span<const std::uint32_t> KeyCollector::collect(std::string_view text) {
  if (text.size() < 3) return {};
  keys_.resize(std::max(keys_.size(), std::min<std::size_t>(text.size(), key_count) + 1));
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = at + text.size();
  std::uint32_t key = std::uint32_t{byte_classes[at[0]]} << 6 | byte_classes[at[1]];
  std::size_t count = 0;
  auto* seen = seen_.data();
  auto* keys = keys_.data();
  // No branch depends on the text: each key is written, and counted when it is new.
  for (at += 2; at != end; ++at) {
    key = (key << 6 | byte_classes[*at]) & (key_count - 1);
    std::uint64_t word = seen[key / 64], bit = std::uint64_t{1} << (key % 64);
    keys[count] = key;
    count += (word & bit) == 0 ? 1 : 0;
    seen[key / 64] = word | bit;
  }
  for (std::size_t i = 0; i < count; ++i) seen[keys[i] / 64] = 0;
  return {keys, count};
}

}  // namespace warren::search
