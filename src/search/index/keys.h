#pragma once
// Properties of a block's bytes, computed when the block is made.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace warren::search {

std::uint32_t count_lines(std::string_view text);  // line ends
std::uint8_t block_flags(std::string_view text);   // BlockFlags

// The distinct keys of a text, in the order of their first occurrence. Keeps its memory between
// texts; each thread needs one.
class KeyCollector {
 public:
  KeyCollector();
  // Valid until the next call.
  std::span<const std::uint32_t> collect(std::string_view text);

 private:
  // For each key, the turn in which it was last seen: 256 KB, which fit into the second-level
  // cache. One bit per key would fit into the first level, but bits must be cleared and cost more
  // to set.
  std::vector<std::uint8_t> seen_;
  std::uint8_t turn_ = 0;
  std::vector<std::uint32_t> keys_;
};

}  // namespace warren::search
