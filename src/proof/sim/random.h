#pragma once
// Random numbers from a seed: the same on every machine, in a few nanoseconds each.
#include <array>
#include <bit>
#include <cstdint>

namespace warren::sim {

class Random {
 public:
  // Seeds that differ in one bit give unrelated numbers: splitmix64 fills the state.
  explicit Random(std::uint64_t seed) {
    for (auto& word : state_) {
      std::uint64_t mixed = (seed += 0x9e3779b97f4a7c15);
      mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
      mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
      word = mixed ^ (mixed >> 31);
    }
  }

  // 64 random bits (xoshiro256**).
  std::uint64_t bits() {
    std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9, shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  // At least 0, and less than 1.
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  // 0 … bound - 1, for a bound between 1 and 2^32.
  std::uint64_t below(std::uint64_t bound) { return ((bits() >> 32) * bound) >> 32; }
  bool chance(double probability) { return unit() < probability; }

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace warren::sim
