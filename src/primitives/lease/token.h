#pragma once
// The number under which a lease was granted. Every write made under a lease shows it, and a
// resource that has seen a higher one refuses the write.
#include <chrono>
#include <compare>
#include <cstdint>
#include <string>

namespace warren {

struct FencingToken {
  std::uint64_t epoch = 0;  // of the topology: grows with every failover run by Sentinel or Cluster
  std::uint64_t counter = 0;  // grows with every grant; never behind the server's clock in us

  auto operator<=>(const FencingToken&) const = default;
};

// How long a fence remembers the newest token after its last use: a grant, a renewal by a script or
// a guarded write.
constexpr std::chrono::milliseconds fence_retention = std::chrono::hours(24);

// Formats a token, for example 3-1763200000000000.
std::string to_string(const FencingToken& token);

}  // namespace warren
