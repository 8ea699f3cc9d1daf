#pragma once
// Checksums of sections. They detect accidental damage on disk, in transit or in memory.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace warren::search {

// A change to a single word always changes its lane, whatever the other words are.
class Checksum {
 public:
  static constexpr std::size_t step = 32;

  // `size` must be a multiple of `step`.
  void add(const std::byte* bytes, std::size_t size) {
    constexpr std::uint64_t odd = 0x9fb21c651e98df25;
    for (const auto* end = bytes + size; bytes != end; bytes += step) {
      std::array<std::uint64_t, 4> words;
      std::memcpy(words.data(), bytes, step);
      for (std::size_t i = 0; i < 4; ++i) lanes_[i] = (std::rotl(lanes_[i], 29) ^ words[i]) * odd;
    }
  }
  std::uint64_t value() const {
    return lanes_[0] ^ std::rotl(lanes_[1], 17) ^ std::rotl(lanes_[2], 31) ^
           std::rotl(lanes_[3], 47);
  }

 private:
  std::array<std::uint64_t, 4> lanes_{1, 2, 3, 4};
};

}  // namespace warren::search
