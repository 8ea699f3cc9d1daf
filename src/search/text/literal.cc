#include "search/text/literal.h"

#include <array>
#include <cstring>

#include "search/query/rank.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "search/text/literal.cc"
#include <hwy/foreach_target.h>  // includes this file once for each vector instruction set
#include <hwy/highway.h>

#ifndef WARREN_SEARCH_NEEDLE
#define WARREN_SEARCH_NEEDLE
namespace warren::search {
// A literal as the vector code needs it. A byte of text matches a byte of the needle if they are
// equal after applying its fold: a bit that makes two letters one and turns no other byte into a
// letter.
struct Needle {
  const char* bytes;
  const char* folds;
  std::size_t size;
  std::size_t first, second;
  bool can_overlap;
};

inline char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

template <class Word>
inline Word word_at(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}
template <class Word>
inline bool fits_word(const Needle& needle, const char* at, std::size_t place) {
  auto folded = static_cast<Word>(word_at<Word>(at + place) | word_at<Word>(needle.folds + place));
  return folded == word_at<Word>(needle.bytes + place);
}
// Compares both ends, each in one operation. For most needles that covers everything.
template <class Word>
inline bool fits_ends(const Needle& needle, const char* at) {
  return fits_word<Word>(needle, at, 0) && fits_word<Word>(needle, at, needle.size - sizeof(Word));
}

inline bool fits(const Needle& needle, const char* at) {
  using std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t;
  if (needle.size == 1) return fits_word<uint8_t>(needle, at, 0);
  if (needle.size < 4) return fits_ends<uint16_t>(needle, at);
  if (needle.size < 8) return fits_ends<uint32_t>(needle, at);
  if (!fits_ends<uint64_t>(needle, at)) return false;
  for (std::size_t place = 8; place + 8 < needle.size; place += 8)
    if (!fits_word<uint64_t>(needle, at, place)) return false;
  return true;
}
}  // namespace warren::search
#endif

HWY_BEFORE_NAMESPACE();
namespace warren::search::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Bytes = hn::ScalableTag<std::uint8_t>;
using Vector = hn::Vec<Bytes>;

// Finds where both rare bytes of the needle match: one bit per byte of a vector.
struct Filter {
  explicit Filter(const Needle& needle)
      : first(needle.first),
        second(needle.second),
        first_fold(hn::Set(Bytes(), static_cast<std::uint8_t>(needle.folds[needle.first]))),
        second_fold(hn::Set(Bytes(), static_cast<std::uint8_t>(needle.folds[needle.second]))),
        first_byte(hn::Set(Bytes(), static_cast<std::uint8_t>(needle.bytes[needle.first]))),
        second_byte(hn::Set(Bytes(), static_cast<std::uint8_t>(needle.bytes[needle.second]))) {}

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

// Calls take(place) for each occurrence of the needle, until it returns false. `take` sets `next`
// to the next place of interest.
template <class Take>
HWY_INLINE void scan(const Needle& needle, const char* text, std::size_t size, Take take) {
  if (size < needle.size) return;
  const std::size_t places = size - needle.size + 1;  // where a match may begin
  const bool is_proven = needle.size <= 2;            // the filter has compared everything
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
  if (places >= width) {  // the last vector ends with the text and overlaps the one before
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

// Compares a short needle at a whole vector of places at once, so that matches are counted as bits
// instead of one by one.
std::uint64_t count_short(const Needle& needle, const char* text, std::size_t size,
                          bool& has_word) {
  constexpr std::size_t width = hn::MaxLanes(Bytes());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text);
  const std::size_t places = size < needle.size ? 0 : size - needle.size + 1;
  const Filter filter(needle);
  std::uint64_t count = 0;
  auto add = [&](hn::Mask<Bytes> mask, std::size_t base, std::size_t from) HWY_ATTR {
    for (std::size_t i = 0; i < needle.size; ++i) {
      if (i == needle.first || i == needle.second) continue;
      auto fold = hn::Set(Bytes(), static_cast<std::uint8_t>(needle.folds[i]));
      auto byte = hn::Set(Bytes(), static_cast<std::uint8_t>(needle.bytes[i]));
      mask = hn::And(mask, hn::Eq(hn::Or(hn::LoadU(Bytes(), bytes + base + i), fold), byte));
    }
    std::uint64_t bits = bits_of(mask) >> (from - base) << (from - base);
    count += static_cast<std::uint64_t>(__builtin_popcountll(bits));
    for (; bits != 0 && !has_word; bits &= bits - 1) {
      std::size_t place = base + static_cast<std::size_t>(__builtin_ctzll(bits));
      has_word = is_whole_word({text, size}, place, place + needle.size);
    }
  };
  std::size_t base = 0;
  for (; base + 4 * width <= places; base += 4 * width) {
    auto a = filter.at(bytes + base);
    auto b = filter.at(bytes + base + width);
    auto c = filter.at(bytes + base + 2 * width);
    auto d = filter.at(bytes + base + 3 * width);
    auto ab = hn::Or(a, b), cd = hn::Or(c, d);
    if (HWY_LIKELY(hn::AllFalse(Bytes(), hn::Or(ab, cd)))) continue;
    if (!hn::AllFalse(Bytes(), a)) add(a, base, base);
    if (!hn::AllFalse(Bytes(), b)) add(b, base + width, base + width);
    if (!hn::AllFalse(Bytes(), c)) add(c, base + 2 * width, base + 2 * width);
    if (!hn::AllFalse(Bytes(), d)) add(d, base + 3 * width, base + 3 * width);
  }
  for (; base + width <= places; base += width) add(filter.at(bytes + base), base, base);
  if (base == places) return count;
  if (places >= width) {  // the last vector ends with the text and overlaps the one before
    add(filter.at(bytes + places - width), places - width, base);
    return count;
  }
  for (; base < places; ++base) {
    if (!fits(needle, text + base)) continue;
    ++count;
    has_word = has_word || is_whole_word({text, size}, base, base + needle.size);
  }
  return count;
}

std::uint64_t count_each(const Needle& needle, const char* text, std::size_t size, bool& has_word) {
  if (needle.size <= 8 && !needle.can_overlap) return count_short(needle, text, size, has_word);
  std::uint64_t count = 0;
  scan(needle, text, size, [&](std::size_t place, std::size_t& next) {
    next = place + needle.size;
    has_word = has_word || is_whole_word({text, size}, place, next);
    ++count;
    return true;
  });
  return count;
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
HWY_EXPORT(count_each);
HWY_EXPORT(count_byte);
HWY_EXPORT(add_up);

namespace {

// Roughly how common a byte is in source code. The more common, the worse it filters.
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
    : needle_(needle), folds_(needle.size(), 0) {
  for (std::size_t i = 0; ignores_case && i < needle_.size(); ++i) {
    needle_[i] = lower(needle_[i]);
    if (needle_[i] >= 'a' && needle_[i] <= 'z') folds_[i] = 0x20;
  }
  for (std::size_t i = 1; i < needle_.size(); ++i)
    can_overlap_ = can_overlap_ || needle_.ends_with(std::string_view(needle_).substr(0, i));
  auto common = [&](std::size_t i) { return commonness[static_cast<unsigned char>(needle_[i])]; };
  std::size_t best = 0;
  for (std::size_t i = 1; i < needle_.size(); ++i)
    if (common(i) < common(best)) best = i;
  std::size_t next = best == 0 ? needle_.size() - 1 : 0;
  for (std::size_t i = 0; i < needle_.size(); ++i) {
    // A repeated byte says little more than a single one.
    if (i == best || needle_[i] == needle_[best]) continue;
    if (needle_[next] == needle_[best] || common(i) < common(next)) next = i;
  }
  first_ = static_cast<std::uint32_t>(std::min(best, next));
  second_ = static_cast<std::uint32_t>(std::max(best, next));
}

Needle Literal::view() const {
  return {needle_.data(), folds_.data(), needle_.size(), first_, second_, can_overlap_};
}

std::size_t Literal::find(std::string_view text) const {
  return HWY_DYNAMIC_DISPATCH(find_first)(view(), text.data(), text.size());
}

void Literal::find_all(std::string_view text, std::vector<Span>& into, std::size_t most) const {
  HWY_DYNAMIC_DISPATCH(find_each)(view(), text.data(), text.size(), into, most);
}

std::uint64_t Literal::count(std::string_view text, bool& has_word) const {
  return HWY_DYNAMIC_DISPATCH(count_each)(view(), text.data(), text.size(), has_word);
}

std::uint64_t count_newlines(std::string_view text) {
  return HWY_DYNAMIC_DISPATCH(count_byte)(text.data(), text.size(), '\n');
}

std::uint64_t sum_bytes(std::string_view text) {
  return HWY_DYNAMIC_DISPATCH(add_up)(text.data(), text.size());
}

}  // namespace warren::search
#endif
