#pragma once
// How often a random test tries: less often where each step is checked and takes ten times as long.

namespace warren::search {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int rounds(int count) { return (count + 4) / 5; }
#else
constexpr int rounds(int count) { return count; }
#endif

}  // namespace warren::search
