#include "search/source/skip.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace warren::search {

std::string reason_of(int error) { return fmt::format("cannot be read: {}", std::strerror(error)); }

std::optional<std::string> read_text(int file, std::size_t most, std::string& text,
                                     struct stat& facts) {
  if (fstat(file, &facts) != 0) return reason_of(errno);
  if (!S_ISREG(facts.st_mode)) return "not a regular file";
  auto size = static_cast<std::size_t>(facts.st_size);
  if (size > most) return too_large(size, most);
  int error = 0;
  text.resize_and_overwrite(size, [&](char* into, std::size_t) {
    std::size_t got = 0;
    while (got < size) {
      auto count = ::read(file, into + got, size - got);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) error = errno;
      if (count <= 0) break;
      got += static_cast<std::size_t>(count);
    }
    return got;
  });
  if (error != 0) return reason_of(error);
  if (is_binary(text)) return "binary";
  return std::nullopt;
}

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
