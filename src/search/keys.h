#pragma once
// What is learnt from a block's bytes when it is made.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace warren::search {

std::uint32_t count_lines(std::string_view text);  // line ends
std::uint8_t block_flags(std::string_view text);   // BlockFlags

// The distinct keys of a text, in the order in which they occur first. Keeps its memory between
// texts: one for each thread.
class KeyCollector {
 public:
  KeyCollector();
  // Valid until the next call.
  std::span<const std::uint32_t> collect(std::string_view text);

 private:
  std::vector<std::uint64_t> seen_;  // 32 KB: stays in the first-level cache
  std::vector<std::uint32_t> keys_;
};

}  // namespace warren::search
