#include "search/literal.h"

#include <array>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "search/literal.cc"
#include <hwy/foreach_target.h>  // includes this file once for each kind of vector
#include <hwy/highway.h>

#ifndef WARREN_SEARCH_NEEDLE
#define WARREN_SEARCH_NEEDLE
namespace warren::search {
// What the vector code needs to know of a literal.
struct Needle {
  const char* bytes;
  std::size_t size;
  std::size_t first, second;
  bool ignores_case;
};

inline char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

template <class Word>
inline bool equal_word(const char* a, const char* b) {
  Word x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  return x == y;
}
// Both ends first, each in one comparison: for most needles that is all of it.
template <class Word>
inline bool equal_ends(const Needle& needle, const char* at) {
  std::size_t last = needle.size - sizeof(Word);
  return equal_word<Word>(at, needle.bytes) && equal_word<Word>(at + last, needle.bytes + last);
}

inline bool fits(const Needle& needle, const char* at) {
  if (!needle.ignores_case) {
    if (needle.size < 4) return std::memcmp(at, needle.bytes, needle.size) == 0;
    if (needle.size <= 8) return equal_ends<std::uint32_t>(needle, at);
    if (!equal_ends<std::uint64_t>(needle, at)) return false;
    return needle.size <= 16 || std::memcmp(at, needle.bytes, needle.size) == 0;
  }
  for (std::size_t i = 0; i < needle.size; ++i)
    if (lower(at[i]) != needle.bytes[i]) return false;
  return true;
}
}  // namespace warren::search
#endif

HWY_BEFORE_NAMESPACE();
namespace warren::search::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Bytes = hn::ScalableTag<std::uint8_t>;
using Vector = hn::Vec<Bytes>;

// Where both rare bytes of the needle fit: one bit per byte of a vector.
struct Filter {
  explicit Filter(const Needle& needle)
      : first(needle.first),
        second(needle.second),
        first_fold(hn::Set(Bytes(), fold_of(needle, needle.first))),
        second_fold(hn::Set(Bytes(), fold_of(needle, needle.second))),
        first_byte(hn::Set(Bytes(), static_cast<std::uint8_t>(needle.bytes[needle.first]))),
        second_byte(hn::Set(Bytes(), static_cast<std::uint8_t>(needle.bytes[needle.second]))) {}

  // A bit that makes two letters one and no other byte a letter.
  static std::uint8_t fold_of(const Needle& needle, std::size_t place) {
    char c = needle.bytes[place];
    return needle.ignores_case && c >= 'a' && c <= 'z' ? 0x20 : 0;
  }
  HWY_INLINE hn::Mask<Bytes> at(const std::uint8_t* text) const {
    auto a = hn::Or(hn::LoadU(Bytes(), text + first), first_fold);
    auto b = hn::Or(hn::LoadU(Bytes(), text + second), second_fold);
    return hn::And(hn::Eq(a, first_byte), hn::Eq(b, second_byte));
  }

  std::size_t first, second;
  Vector first_fold, second_fold, first_byte, second_byte;
};

HWY_INLINE std::uint64_t bits_of(hn::Mask<Bytes> mask) {
  std::uint64_t bits = 0;
  hn::StoreMaskBits(Bytes(), mask, reinterpret_cast<std::uint8_t*>(&bits));
  return bits;
}

// Calls take(place) for each place where the needle is, until it returns false. `take` answers with
// the next place that is of interest in `next`.
template <class Take>
HWY_INLINE void scan(const Needle& needle, const char* text, std::size_t size, Take take) {
  if (size < needle.size) return;
  const std::size_t places = size - needle.size + 1;  // where a match may begin
  const bool is_proven = needle.size <= 2;            // the filter has compared all of it
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text);
  constexpr std::size_t width = hn::MaxLanes(Bytes());
  const Filter filter(needle);
  std::size_t at = 0;
  auto look = [&](std::uint64_t bits, std::size_t base) HWY_ATTR {
    for (; bits != 0; bits &= bits - 1) {
      std::size_t place = base + static_cast<std::size_t>(__builtin_ctzll(bits));
      if (place >= at && (is_proven || fits(needle, text + place)) && !take(place, at))
        return false;
    }
    return true;
  };
  std::size_t base = 0;
  for (; base + 4 * width <= places; base += 4 * width) {
    auto a = filter.at(bytes + base);
    auto b = filter.at(bytes + base + width);
    auto c = filter.at(bytes + base + 2 * width);
    auto d = filter.at(bytes + base + 3 * width);
    if (HWY_LIKELY(hn::AllFalse(Bytes(), hn::Or(hn::Or(a, b), hn::Or(c, d))))) continue;
    if (!look(bits_of(a), base) || !look(bits_of(b), base + width) ||
        !look(bits_of(c), base + 2 * width) || !look(bits_of(d), base + 3 * width))
      return;
  }
  for (; base + width <= places; base += width)
    if (!look(bits_of(filter.at(bytes + base)), base)) return;
  if (base == places) return;
  if (places >= width) {  // the last vector ends with the text and repeats what came before
    std::size_t last = places - width;
    look(bits_of(filter.at(bytes + last)) >> (base - last), base);
    return;
  }
  for (; base < places; ++base)
    if (base >= at && fits(needle, text + base) && !take(base, at)) return;
}

std::size_t find_first(const Needle& needle, const char* text, std::size_t size) {
  std::size_t found = std::string_view::npos;
  scan(needle, text, size, [&](std::size_t place, std::size_t&) {
    found = place;
    return false;
  });
  return found;
}

void find_each(const Needle& needle, const char* text, std::size_t size, std::vector<Span>& into,
               std::size_t most) {
  scan(needle, text, size, [&](std::size_t place, std::size_t& next) {
    if (most-- == 0) return false;
    next = place + needle.size;
    into.push_back({static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(next)});
    return true;
  });
}

std::uint64_t count_byte(const char* text, std::size_t size, char wanted) {
  constexpr std::size_t width = hn::MaxLanes(Bytes());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text);
  const auto byte = hn::Set(Bytes(), static_cast<std::uint8_t>(wanted));
  std::uint64_t count = 0;
  std::size_t at = 0;
  for (; at + width <= size; at += width)
    count += hn::CountTrue(Bytes(), hn::Eq(hn::LoadU(Bytes(), bytes + at), byte));
  for (; at < size; ++at) count += text[at] == wanted;
  return count;
}

std::uint64_t add_up(const char* text, std::size_t size) {
  constexpr std::size_t width = hn::MaxLanes(Bytes());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text);
  const hn::Repartition<std::uint64_t, Bytes> wide;
  auto a = hn::Zero(wide), b = hn::Zero(wide), c = hn::Zero(wide), d = hn::Zero(wide);
  std::size_t at = 0;
  for (; at + 4 * width <= size; at += 4 * width) {
    a = hn::Add(a, hn::SumsOf8(hn::LoadU(Bytes(), bytes + at)));
    b = hn::Add(b, hn::SumsOf8(hn::LoadU(Bytes(), bytes + at + width)));
    c = hn::Add(c, hn::SumsOf8(hn::LoadU(Bytes(), bytes + at + 2 * width)));
    d = hn::Add(d, hn::SumsOf8(hn::LoadU(Bytes(), bytes + at + 3 * width)));
  }
  std::uint64_t sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(hn::Add(a, b), hn::Add(c, d))));
  for (; at < size; ++at) sum += bytes[at];
  return sum;
}

}  // namespace warren::search::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warren::search {
HWY_EXPORT(find_first);
HWY_EXPORT(find_each);
HWY_EXPORT(count_byte);
HWY_EXPORT(add_up);

namespace {

// How often a byte is seen in source code, roughly: the more, the worse it filters.
constexpr std::array<std::uint8_t, 256> commonness = [] {
  std::array<std::uint8_t, 256> table{};
  for (std::size_t i = 0; i < 256; ++i) table[i] = i < 32 ? 5 : i < 127 ? 60 : 15;
  constexpr std::string_view order = " etrnsaoidclpufm_,g)(bh;0*\t1v\nyx=-2kw>./S3RETA";
  for (std::size_t i = 0; i < order.size(); ++i)
    table[static_cast<unsigned char>(order[i])] = static_cast<std::uint8_t>(250 - 3 * i);
  return table;
}();

}  // namespace

Literal::Literal(std::string_view needle, bool ignores_case)
    : needle_(needle), ignores_case_(ignores_case) {
  if (ignores_case)
    for (char& c : needle_) c = lower(c);
  auto common = [&](std::size_t i) { return commonness[static_cast<unsigned char>(needle_[i])]; };
  std::size_t best = 0;
  for (std::size_t i = 1; i < needle_.size(); ++i)
    if (common(i) < common(best)) best = i;
  std::size_t next = best == 0 ? needle_.size() - 1 : 0;
  for (std::size_t i = 0; i < needle_.size(); ++i) {
    // A byte that is there twice says little more than once.
    if (i == best || needle_[i] == needle_[best]) continue;
    if (needle_[next] == needle_[best] || common(i) < common(next)) next = i;
  }
  first_ = static_cast<std::uint32_t>(std::min(best, next));
  second_ = static_cast<std::uint32_t>(std::max(best, next));
}

std::size_t Literal::find(std::string_view text) const {
  Needle needle{needle_.data(), needle_.size(), first_, second_, ignores_case_};
  return HWY_DYNAMIC_DISPATCH(find_first)(needle, text.data(), text.size());
}

void Literal::find_all(std::string_view text, std::vector<Span>& into, std::size_t most) const {
  Needle needle{needle_.data(), needle_.size(), first_, second_, ignores_case_};
  HWY_DYNAMIC_DISPATCH(find_each)(needle, text.data(), text.size(), into, most);
}

std::uint64_t count_newlines(std::string_view text) {
  return HWY_DYNAMIC_DISPATCH(count_byte)(text.data(), text.size(), '\n');
}

std::uint64_t sum_bytes(std::string_view text) {
  return HWY_DYNAMIC_DISPATCH(add_up)(text.data(), text.size());
}

}  // namespace warren::search
#endif
