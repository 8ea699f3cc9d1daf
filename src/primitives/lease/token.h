#pragma once
// The number under which a grant was made. Whoever writes under a lease shows it, and a resource
// that has seen a higher one refuses.
#include <chrono>
#include <compare>
#include <cstdint>
#include <string>

namespace warren {

struct FencingToken {
  std::uint64_t epoch = 0;    // of the topology: grows with every failover that somebody manages
  std::uint64_t counter = 0;  // grows with every grant; never behind the server's clock in us

  auto operator<=>(const FencingToken&) const = default;
};

// A fence remembers the newest token for so long after its last use: a grant, a renewal by a script or
// a guarded write.
constexpr std::chrono::milliseconds fence_retention = std::chrono::hours(24);

// 3-1763200000000000
std::string to_string(const FencingToken& token);

}  // namespace warren
