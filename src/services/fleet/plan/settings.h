#pragma once
// Figures that a fleet and its simulation share. docs/fleet-tuning.md says what others do.
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace warren::fleet::defaults {

using namespace std::chrono_literals;

// What a repository takes of which nobody has said anything yet.
inline constexpr std::uint64_t unknown_bytes = 32u << 20;
// What any build takes, however small the repository.
inline constexpr std::uint64_t build_bytes = 8u << 20;
// Rows that a node looks at for each node there is, but 64.
inline constexpr std::size_t offers_per_node = 2;
// Rows that a node has claimed and does not serve yet.
inline constexpr std::size_t most_unready = 1'000'000;

}  // namespace warren::fleet::defaults
