#pragma once
// Today's first seed: gives seeds that have never been run before, besides the fixed ones of a
// test.
//
//   auto first = daily_seed();                        // 20'773'000 on 2026-11-16
//   MESSAGE("WARREN_SEED=" << first << " runs these again");
//   for (auto seed = first; seed < first + daily_seeds; ++seed) …
//
// The day is that of UTC; WARREN_SEED=n in the environment overrides it.
#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace warren::torture {

inline constexpr std::uint64_t daily_seeds = 1000;  // per day: no two days share a seed

inline std::uint64_t daily_seed() {
  if (const char* given = std::getenv("WARREN_SEED")) return std::strtoull(given, nullptr, 10);
  auto days = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  return static_cast<std::uint64_t>(days.time_since_epoch().count()) * daily_seeds;
}

}  // namespace warren::torture
