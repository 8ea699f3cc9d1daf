#include "search/skip.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace warren::search {

std::string too_large(std::size_t bytes, std::size_t limit) {
  auto shown = [](std::size_t size) {
    if (size < 1024) return fmt::format("{} bytes", size);
    if (size < 1u << 20) return fmt::format("{:.3g} KB", static_cast<double>(size) / 1024);
    return fmt::format("{:.3g} MB", static_cast<double>(size) / (1u << 20));
  };
  return fmt::format("{}, more than {}", shown(bytes), shown(limit));
}

void Fingerprint::mix(std::uint64_t value) {
  a_ = (std::rotl(a_, 23) ^ value) * 0x9fb21c651e98df25;
  b_ = (std::rotl(b_, 41) + value) * 0xd6e8feb86659fd93;
  a_ ^= b_ >> 32;
}

void Fingerprint::add(std::string_view text) {
  mix(text.size());
  for (; !text.empty(); text.remove_prefix(std::min<std::size_t>(text.size(), 8))) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), std::min<std::size_t>(text.size(), 8));
    mix(word);
  }
}

void Fingerprint::add(std::initializer_list<std::uint64_t> numbers) {
  for (auto number : numbers) mix(number);
}

}  // namespace warren::search
