#include "search/index/postings.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace warren::search {

namespace {

constexpr std::uint32_t group_size = 128;
constexpr std::size_t presence_words = key_count / 64;
constexpr std::size_t rank_count = key_count / 512;
constexpr std::uint8_t has_exceptions = 0x80;

template <class T>
T load(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void put_varint(std::vector<std::uint8_t>& out, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
  out.push_back(static_cast<std::uint8_t>(value));
}

std::uint32_t take_varint(const std::uint8_t*& from) {
  std::uint32_t value = 0;
  for (int shift = 0;; shift += 7) {
    std::uint8_t byte = *from++;
    value |= std::uint32_t{byte & 0x7fu} << (shift & 31);
    if (byte < 0x80 || shift >= 28) return value;
  }
}

void put_word(std::vector<std::uint8_t>& out, std::size_t at, std::uint32_t value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

// The width that minimises the total size of low bits and exceptions.
unsigned best_width(std::span<const std::uint32_t> deltas) {
  std::array<std::uint32_t, 33> lengths{};
  for (auto delta : deltas) ++lengths[std::bit_width(delta)];
  unsigned longest = 32;
  while (longest > 0 && lengths[longest] == 0) --longest;
  unsigned best = longest;
  std::size_t best_bits = deltas.size() * longest, above = 0;
  for (unsigned width = longest; width-- > 0;) {
    above += lengths[width + 1];
    std::size_t bits = deltas.size() * width + 8 + above * (8 + 8 * ((longest - width + 6) / 7));
    if (bits < best_bits) best = width, best_bits = bits;
  }
  return best;
}

void encode_group(std::span<const std::uint32_t> deltas, std::vector<std::uint8_t>& out) {
  unsigned width = best_width(deltas);
  std::size_t head = out.size();
  // Rounds up to whole words, so that bits can be written eight bytes at a time.
  out.resize(head + 1 + (deltas.size() * width + 7) / 8 + sizeof(std::uint64_t));
  auto* into = out.data() + head;
  *into++ = static_cast<std::uint8_t>(width);
  std::uint64_t mask = (std::uint64_t{1} << width) - 1, bits = 0;
  unsigned held = 0;
  std::array<std::uint8_t, group_size> exceptions;
  std::size_t exception_count = 0;
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    bits |= (deltas[i] & mask) << held;
    exceptions[exception_count] = static_cast<std::uint8_t>(i);
    exception_count += (deltas[i] & ~mask) != 0 ? 1 : 0;
    held += width;
    if (held < 32) continue;
    std::memcpy(into, &bits, sizeof bits);
    into += sizeof(std::uint32_t);
    bits >>= 32;
    held -= 32;
  }
  std::memcpy(into, &bits, sizeof bits);
  into += (held + 7) / 8;
  out.resize(static_cast<std::size_t>(into - out.data()));
  if (exception_count == 0) return;
  out[head] |= has_exceptions;
  out.push_back(static_cast<std::uint8_t>(exception_count));
  out.insert(out.end(), exceptions.data(), exceptions.data() + exception_count);
  for (std::size_t i = 0; i < exception_count; ++i)
    put_varint(out, static_cast<std::uint32_t>(std::uint64_t{deltas[exceptions[i]]} >> width));
}

void encode_bitmap(std::span<const std::uint32_t> places, std::uint32_t block_count,
                   std::vector<std::uint8_t>& out) {
  std::size_t begin = out.size();
  out.resize(begin + (block_count + 7) / 8);
  for (auto place : places) out[begin + place / 8] |= static_cast<std::uint8_t>(1u << (place % 8));
}

bool is_dense(std::uint32_t count, std::uint32_t block_count) { return count > block_count / 8; }

}  // namespace

void encode_list(std::span<const std::uint32_t> places, std::uint32_t block_count,
                 std::vector<std::uint8_t>& out) {
  auto count = static_cast<std::uint32_t>(places.size());
  put_varint(out, count);
  if (is_dense(count, block_count)) return encode_bitmap(places, block_count, out);
  std::uint32_t groups = (count + group_size - 1) / group_size;
  std::size_t skips = out.size();
  if (groups > 1) out.resize(skips + std::size_t{groups} * 8);
  std::size_t begin = out.size();
  std::array<std::uint32_t, group_size> deltas{};
  std::uint32_t next = 0;  // the smallest place that can follow
  for (std::uint32_t group = 0; group < groups; ++group) {
    auto part = places.subspan(std::size_t{group} * group_size);
    part = part.first(std::min<std::size_t>(part.size(), group_size));
    for (std::size_t i = 0; i < part.size(); ++i) {
      deltas[i] = part[i] - next;
      next = part[i] + 1;
    }
    encode_group({deltas.data(), part.size()}, out);
    if (groups == 1) break;
    put_word(out, skips + std::size_t{group} * 8, part.back());
    put_word(out, skips + std::size_t{group} * 8 + 4,
             static_cast<std::uint32_t>(out.size() - begin));
  }
}

PostingList::PostingList(const std::uint8_t* encoded, std::uint32_t block_count)
    : count_(take_varint(encoded)), block_count_(block_count) {
  is_bitmap_ = is_dense(count_, block_count_);
  if (!is_bitmap_ && group_count() > 1) {
    skips_ = encoded;
    encoded += std::size_t{group_count()} * 8;
  }
  data_ = encoded;
}

std::uint32_t PostingList::last_of(std::uint32_t group) const {
  return load<std::uint32_t>(skips_ + std::size_t{group} * 8);
}

std::uint32_t PostingList::decode_group(std::uint32_t group, std::uint32_t* out) const {
  std::uint32_t count = std::min(group_size, count_ - group * group_size);
  std::uint32_t next = group == 0 ? 0 : last_of(group - 1) + 1;
  const auto* from = data_;
  if (group > 0) from += load<std::uint32_t>(skips_ + std::size_t{group} * 8 - 4);
  std::uint8_t head = *from++;
  unsigned width = head & 0x7f;
  std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  for (std::uint32_t i = 0, bit = 0; i < count; ++i, bit += width)
    out[i] = static_cast<std::uint32_t>(load<std::uint64_t>(from + bit / 8) >> (bit % 8) & mask);
  if ((head & has_exceptions) != 0) {
    from += (count * width + 7) / 8;
    std::uint8_t exceptions = *from++;
    const auto* high = from + exceptions;
    for (std::uint8_t i = 0; i < exceptions; ++i)
      out[from[i] % group_size] |=
          static_cast<std::uint32_t>(std::uint64_t{take_varint(high)} << width);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    out[i] += next;
    next = out[i] + 1;
  }
  return count;
}

void PostingList::decode(std::vector<std::uint32_t>& into) const {
  if (data_ == nullptr) return into.push_back(only_);
  std::size_t begin = into.size();
  into.resize(begin + count_ + group_size);
  auto* out = into.data() + begin;
  if (is_bitmap_) {
    std::size_t bytes = (block_count_ + 7) / 8, found = 0;
    for (std::size_t at = 0; at < bytes && found < count_; at += 8) {
      std::uint64_t bits = load<std::uint64_t>(data_ + at);
      if (bytes - at < 8) bits &= (std::uint64_t{1} << (8 * (bytes - at))) - 1;
      for (; bits != 0 && found < count_; bits &= bits - 1)
        out[found++] = static_cast<std::uint32_t>(at * 8) + std::countr_zero(bits);
    }
  } else {
    for (std::uint32_t group = 0; group < group_count(); ++group) out += decode_group(group, out);
  }
  into.resize(begin + count_);
}

void PostingList::intersect(std::vector<std::uint32_t>& candidates) const {
  if (data_ == nullptr) {
    std::erase_if(candidates, [this](auto place) { return place != only_; });
  } else if (is_bitmap_) {
    std::erase_if(candidates, [this](auto place) {
      return place >= block_count_ || (data_[place / 8] >> (place % 8) & 1) == 0;
    });
  } else {
    intersect_groups(candidates);
  }
}

std::uint32_t PostingList::group_of(std::uint32_t place, std::uint32_t from) const {
  std::uint32_t groups = group_count(), step = 1;
  while (from + step <= groups && last_of(from + step - 1) < place) from += step, step *= 2;
  std::uint32_t end = std::min(groups, from + step);
  while (from < end) {
    std::uint32_t middle = (from + end) / 2;
    if (last_of(middle) < place)
      from = middle + 1;
    else
      end = middle;
  }
  return from;
}

void PostingList::intersect_groups(std::vector<std::uint32_t>& candidates) const {
  std::array<std::uint32_t, group_size> places;
  std::uint32_t group = 0, groups = group_count(), loaded = groups;
  std::uint32_t count = 0, at = 0;
  std::size_t kept = 0;
  for (auto candidate : candidates) {
    if (groups > 1) group = group_of(candidate, group);
    if (group >= groups) break;
    if (loaded != group) count = decode_group(loaded = group, places.data()), at = 0;
    while (at < count && places[at] < candidate) ++at;
    if (at < count && places[at] == candidate) candidates[kept++] = candidate;
  }
  candidates.resize(kept);
}

std::size_t directory_bytes(std::size_t entry_count) {
  return presence_words * 8 + rank_count * 4 + entry_count * 4;
}

void write_directory(std::span<const std::uint64_t> present, std::span<const std::uint32_t> entries,
                     std::byte* out) {
  std::memcpy(out, present.data(), presence_words * 8);
  std::array<std::uint32_t, rank_count> ranks{};
  std::uint32_t rank = 0;
  for (std::size_t word = 0; word < presence_words; ++word) {
    if (word % 8 == 0) ranks[word / 8] = rank;
    rank += static_cast<std::uint32_t>(std::popcount(present[word]));
  }
  std::memcpy(out + presence_words * 8, ranks.data(), rank_count * 4);
  if (!entries.empty())
    std::memcpy(out + presence_words * 8 + rank_count * 4, entries.data(), entries.size() * 4);
}

namespace {

// Returns the end of a varint, or null if it does not end before `end`.
const std::uint8_t* skip_varint(const std::uint8_t* from, const std::uint8_t* end) {
  for (int bytes = 1; from < end; ++bytes)
    if (*from++ < 0x80 || bytes == 5) return from;
  return nullptr;
}

// Returns the end of a group, or null, likewise.
const std::uint8_t* skip_group(const std::uint8_t* from, const std::uint8_t* end,
                               std::uint32_t count) {
  if (from >= end) return nullptr;
  std::uint8_t head = *from++;
  unsigned width = head & 0x7f;
  std::size_t packed = (std::size_t{count} * width + 7) / 8;
  if (width > 32 || packed > static_cast<std::size_t>(end - from)) return nullptr;
  from += packed;
  if ((head & has_exceptions) == 0) return from;
  if (from >= end || *from > end - from - 1) return nullptr;
  const auto* high = from + 1 + *from;
  for (std::uint8_t i = 0; i < *from && high != nullptr; ++i) high = skip_varint(high, end);
  return high;
}

bool is_sound_bitmap(const std::uint8_t* from, const std::uint8_t* end, std::uint32_t count,
                     std::uint32_t block_count) {
  std::size_t bytes = (std::size_t{block_count} + 7) / 8;
  if (static_cast<std::size_t>(end - from) < bytes) return false;
  std::size_t found = 0;
  for (std::size_t at = 0; at < bytes; ++at)
    found += static_cast<unsigned>(std::popcount(from[at]));
  return found == count && (block_count % 8 == 0 || from[bytes - 1] >> (block_count % 8) == 0);
}

}  // namespace

bool PostingList::is_sound(const std::uint8_t* encoded, const std::uint8_t* end,
                           std::uint32_t block_count) {
  const auto* data = skip_varint(encoded, end);
  if (data == nullptr) return false;
  PostingList list(encoded, block_count);
  if (list.count_ < 2 || list.count_ > block_count) return false;
  if (list.is_bitmap_) return is_sound_bitmap(data, end, list.count_, block_count);
  auto groups = list.group_count();
  if (groups > 1 && static_cast<std::size_t>(end - data) < std::size_t{groups} * 8) return false;
  std::array<std::uint32_t, group_size> places;
  const auto* at = list.data_;
  for (std::uint32_t group = 0, next = 0; group < groups; ++group) {
    auto count = std::min(group_size, list.count_ - group * group_size);
    const auto* behind = skip_group(at, end, count);
    if (behind == nullptr) return false;
    list.decode_group(group, places.data());
    for (std::uint32_t i = 0; i < count; next = places[i++] + 1)
      if (places[i] < next || places[i] >= block_count) return false;
    at = behind;
    if (groups == 1) break;
    auto ends_at = load<std::uint32_t>(list.skips_ + std::size_t{group} * 8 + 4);
    if (list.last_of(group) != next - 1 || ends_at != at - list.data_) return false;
  }
  return true;
}

bool has_sound_postings(const Segment::Parts& parts) {
  const auto& directory = parts.at(SectionKind::directory);
  if (directory.size == 0) return true;
  if (directory.size < directory_bytes(0)) return false;
  std::vector<std::uint64_t> present(presence_words);
  std::memcpy(present.data(), directory.data, presence_words * 8);
  std::uint32_t count = 0;
  const auto* ranks = reinterpret_cast<const std::uint32_t*>(directory.data + presence_words * 8);
  for (std::size_t word = 0; word < presence_words; ++word) {
    if (word % 8 == 0 && ranks[word / 8] != count) return false;
    count += static_cast<std::uint32_t>(std::popcount(present[word]));
  }
  if (directory.size != directory_bytes(count)) return false;
  const auto& postings = parts.at(SectionKind::postings);
  if (postings.size < postings_slack) return false;
  const auto* lists = reinterpret_cast<const std::uint8_t*>(postings.data);
  const auto* end = lists + postings.size - postings_slack;
  auto blocks = static_cast<std::uint32_t>(parts.blocks().size());
  return std::all_of(ranks + rank_count, ranks + rank_count + count, [&](std::uint32_t entry) {
    bool is_only = (entry & only_block) != 0;
    if (is_only) return (entry & ~only_block) < blocks;
    return entry < postings.size - postings_slack &&
           PostingList::is_sound(lists + entry, end, blocks);
  });
}

std::optional<PostingList> find_list(const Segment::Parts& parts, std::uint32_t key) {
  const auto& directory = parts.at(SectionKind::directory);
  if (directory.size == 0 || key >= key_count) return std::nullopt;
  const auto* present = reinterpret_cast<const std::uint64_t*>(directory.data);
  std::size_t word = key / 64;
  if ((present[word] >> (key % 64) & 1) == 0) return std::nullopt;
  const auto* ranks = reinterpret_cast<const std::uint32_t*>(directory.data + presence_words * 8);
  std::uint32_t rank = ranks[word / 8];
  for (std::size_t before = word / 8 * 8; before < word; ++before)
    rank += static_cast<std::uint32_t>(std::popcount(present[before]));
  std::uint64_t below = (std::uint64_t{1} << (key % 64)) - 1;
  rank += static_cast<std::uint32_t>(std::popcount(present[word] & below));
  std::uint32_t entry = ranks[rank_count + rank];
  if ((entry & only_block) != 0) return PostingList(entry & ~only_block);
  const auto* lists = reinterpret_cast<const std::uint8_t*>(parts.at(SectionKind::postings).data);
  return PostingList(lists + entry, static_cast<std::uint32_t>(parts.blocks().size()));
}

}  // namespace warren::search
