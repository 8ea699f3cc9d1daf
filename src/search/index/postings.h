#pragma once
// Which blocks contain a key: packed lists of ascending block places.
//
//   directory  a bit for each of the 2^18 keys, a count of bits before each 512th, then for each
//              key that occurs one word: the only block (top bit set), or where its list begins
//   list       count (varint), then
//              a bitmap                         if more than one block in eight has the key, or
//              (last place, end) per group      if there is more than one group, then
//              groups of up to 128 deltas: width, packed low bits, and exceptions
//
// The directory and the groups are independent of each other's size: a query decodes only the
// groups between its candidates.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/index/parts.h"

namespace warren::search {

inline constexpr std::size_t postings_slack = 8;  // bytes that must be readable after the last list
inline constexpr std::uint32_t only_block = 1u << 31;

// Appends a list of at least two ascending places, each below block_count.
void encode_list(std::span<const std::uint32_t> places, std::uint32_t block_count,
                 std::vector<std::uint8_t>& out);

class PostingList {
 public:
  PostingList(const std::uint8_t* encoded, std::uint32_t block_count);
  explicit PostingList(std::uint32_t only) : count_(1), only_(only) {}

  std::uint32_t count() const { return count_; }
  // Whether a valid list of at least two places, all of them blocks, begins there and ends before
  // `end`.
  static bool is_sound(const std::uint8_t* encoded, const std::uint8_t* end,
                       std::uint32_t block_count);
  void decode(std::vector<std::uint32_t>& into) const;
  void intersect(std::vector<std::uint32_t>& candidates) const;

 private:
  std::uint32_t group_count() const { return (count_ + 127) / 128; }
  std::uint32_t last_of(std::uint32_t group) const;
  // The first group, starting at `from`, that does not end before the place.
  std::uint32_t group_of(std::uint32_t place, std::uint32_t from) const;
  // Writes the places of a group and returns their number.
  std::uint32_t decode_group(std::uint32_t group, std::uint32_t* out) const;
  void intersect_groups(std::vector<std::uint32_t>& candidates) const;

  std::uint32_t count_;
  std::uint32_t only_ = 0;
  std::uint32_t block_count_ = 0;
  const std::uint8_t* skips_ = nullptr;  // nullptr for one group, or a bitmap
  const std::uint8_t* data_ = nullptr;   // nullptr if only_ is used
  bool is_bitmap_ = false;
};

// The words of the directory section. `entries` are in the order of the keys in `present`.
std::size_t directory_bytes(std::size_t entry_count);
void write_directory(std::span<const std::uint64_t> present, std::span<const std::uint32_t> entries,
                     std::byte* out);
// Whether every entry points into the sections, and every list is valid. For segments from
// elsewhere.
bool has_sound_postings(const Segment::Parts& parts);
std::optional<PostingList> find_list(const Segment::Parts& parts, std::uint32_t key);

}  // namespace warren::search
