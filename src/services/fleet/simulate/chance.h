#pragma once
// Chance from a seed, the same with every standard library.
#include <cmath>
#include <cstdint>
#include <numbers>

namespace warren::fleet_sim {

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  std::uint64_t bits() {  // splitmix64
    auto mixed = (state_ += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
  }
  double unit() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }  // in (0, 1)
  double between(double low, double high) { return low + (high - low) * unit(); }
  std::size_t below(std::size_t bound) { return bits() % bound; }
  double normal() {
    return std::sqrt(-2 * std::log(unit())) * std::cos(2 * std::numbers::pi * unit());
  }
  double log_normal(double median, double sigma) { return median * std::exp(sigma * normal()); }
  double exponential(double mean) { return -mean * std::log(unit()); }

 private:
  std::uint64_t state_;
};

}  // namespace warren::fleet_sim
