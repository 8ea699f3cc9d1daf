#include "search/index/keys.h"

#include <algorithm>

#include "base/utf8.h"
#include "search/index/segment.h"

namespace warren::search {

std::uint32_t count_lines(std::string_view text) {
  std::uint32_t lines = 0;
  // In pieces whose count fits into one byte, so that the compiler can count many bytes at once.
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

KeyCollector::KeyCollector() : seen_(key_count) {}

std::span<const std::uint32_t> KeyCollector::collect(std::string_view text) {
  if (text.size() < 3) return {};
  keys_.resize(std::max(keys_.size(), std::min<std::size_t>(text.size(), key_count) + 1));
  if (++turn_ == 0) std::ranges::fill(seen_, 0), turn_ = 1;
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = at + text.size();
  auto class_of = [&](std::size_t i) { return std::uint64_t{byte_classes[at[i]]}; };
  std::uint64_t last = class_of(0) << 6 | class_of(1);  // classes of the last bytes, 6 bits each
  std::size_t count = 0;
  auto* seen = seen_.data();
  const std::uint8_t turn = turn_;
  auto* keys = keys_.data();
  // No branch depends on the text: every key is written, but counted only if it is new.
  auto take = [&](std::uint64_t classes) {
    auto key = static_cast<std::uint32_t>(classes & (key_count - 1));
    keys[count] = key;
    count += seen[key] != turn ? 1 : 0;
    seen[key] = turn;
  };
  // Four at a time, so that a key does not have to wait for the previous one.
  for (at += 2; end - at >= 4; at += 4) {
    last = last << 24 | class_of(0) << 18 | class_of(1) << 12 | class_of(2) << 6 | class_of(3);
    take(last >> 18);
    take(last >> 12);
    take(last >> 6);
    take(last);
  }
  for (; at != end; ++at) take(last = last << 6 | class_of(0));
  return {keys, count};
}

}  // namespace warren::search
