#pragma once
// How many rounds a random test runs: fewer where checks make each step ten times slower.

namespace warren::search {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int rounds(int count) { return (count + 4) / 5; }
#else
constexpr int rounds(int count) { return count; }
#endif

}  // namespace warren::search
