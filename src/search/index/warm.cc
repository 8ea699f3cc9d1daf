#include "search/index/warm.h"

#include <lz4.h>
#include <lz4hc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "search/parallel.h"

namespace warren::search {

namespace {

constexpr std::size_t frame_bytes = 64u << 10;
constexpr int level = 3;  // higher levels save 2 % more and take twice as long
constexpr std::size_t slot_count = 32;
constexpr std::size_t usual_slot = 4 * frame_bytes;

// The bytes of the arena between the beginnings of two blocks.
std::size_t raw_begin(const Segment::Parts& parts, std::uint32_t block) {
  auto blocks = parts.blocks();
  return block < blocks.size() ? blocks[block].offset() : parts.files().back().offset;
}

struct Frame {
  std::string_view packed;
  std::size_t begin, end;  // in the arena
};

Frame frame_at(const Segment::Parts& parts, std::size_t place) {
  auto frames = parts.at(SectionKind::frames).as<FrameEntry>();
  const auto &frame = frames[place], &next = frames[place + 1];
  return {{parts.at(SectionKind::text).chars() + frame.offset, next.offset - frame.offset},
          raw_begin(parts, frame.first_block),
          raw_begin(parts, next.first_block)};
}

std::size_t frame_of(const Segment::Parts& parts, std::uint32_t block) {
  auto frames = parts.at(SectionKind::frames).as<FrameEntry>();
  auto after =
      std::upper_bound(frames.begin(), frames.end() - 1, block,
                       [](auto value, const auto& frame) { return value < frame.first_block; });
  return static_cast<std::size_t>(after - frames.begin()) - 1;
}

// Whatever fails to decompress (in a file made to deceive) becomes zeros.
void unpack(const Frame& frame, char* into) {
  auto size = frame.end - frame.begin;
  int got = LZ4_decompress_safe(frame.packed.data(), into, static_cast<int>(frame.packed.size()),
                                static_cast<int>(size));
  auto good = static_cast<std::size_t>(std::max(got, 0));
  if (good < size) std::memset(into + good, 0, size - good);
}

// The copies that this thread's views point into. The least recently used is replaced first, so
// that a view stays valid until 32 others were requested.
class Slots {
 public:
  struct Slot {
    std::weak_ptr<Region> owner;  // the region's address may be reused, this cannot
    std::uint64_t what = 0;
    std::uint64_t used = 0;
    std::vector<char> bytes;
  };

  // If `is_new` is set, the caller must fill it.
  Slot& at(const std::shared_ptr<Region>& owner, std::uint64_t what, bool& is_new) {
    auto* oldest = slots_.data();
    for (auto& slot : slots_) {
      bool is_same = slot.what == what && slot.used > 0 && !slot.owner.owner_before(owner) &&
                     !owner.owner_before(slot.owner);
      if (is_same) {
        slot.used = ++clock_;
        is_new = false;
        return slot;
      }
      if (slot.used < oldest->used) oldest = &slot;
    }
    oldest->owner = owner;
    oldest->what = what;
    oldest->used = ++clock_;
    is_new = true;
    return *oldest;
  }

 private:
  std::array<Slot, slot_count> slots_;
  std::uint64_t clock_ = 0;
};

char* make_room(Slots::Slot& slot, std::size_t size) {
  if (slot.bytes.capacity() > usual_slot && size <= usual_slot)
    std::vector<char>().swap(slot.bytes);
  slot.bytes.resize(size + text_slack);
  std::memset(slot.bytes.data() + size, 0, text_slack);
  return slot.bytes.data();
}

Slots& slots() {
  thread_local Slots of_this_thread;
  return of_this_thread;
}

const char* open_frame(const Segment::Parts& parts, std::size_t place) {
  bool is_new = false;
  auto& slot = slots().at(parts.at(SectionKind::text).region, place, is_new);
  if (is_new) {
    auto frame = frame_at(parts, place);
    unpack(frame, make_room(slot, frame.end - frame.begin));
  }
  return slot.bytes.data();
}

std::vector<std::uint32_t> frame_begins(const Segment::Parts& parts) {
  std::vector<std::uint32_t> begins;
  auto count = static_cast<std::uint32_t>(parts.blocks().size());
  for (std::uint32_t block = 0; block < count; ++block)
    if (begins.empty() ||
        raw_begin(parts, block + 1) - raw_begin(parts, begins.back()) > frame_bytes)
      begins.push_back(block);
  begins.push_back(count);
  return begins;
}

struct Packed {
  std::vector<char> bytes;
  std::vector<FrameEntry> frames;  // with offsets in these bytes
};

Result<> pack_frames(const Segment::Parts& parts, std::span<const std::uint32_t> begins,
                     Packed& out) {
  const char* text = parts.at(SectionKind::text).chars();
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    auto from = raw_begin(parts, begins[i]), size = raw_begin(parts, begins[i + 1]) - from;
    if (size > LZ4_MAX_INPUT_SIZE) return fail(Errc::overloaded, "a line has more than 2 GB");
    auto at = out.bytes.size();
    auto most = static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(size)));
    if (out.bytes.capacity() < at + most) out.bytes.reserve((at + most) * 3 / 2);
    out.bytes.resize(at + most);
    int got = LZ4_compress_HC(text + from, out.bytes.data() + at, static_cast<int>(size),
                              static_cast<int>(most), level);
    out.bytes.resize(at + static_cast<std::size_t>(got));
    out.frames.push_back({at, begins[i], 0});
  }
  return ok;
}

Result<> join(const std::vector<Packed>& pieces, Segment::Parts& parts) {
  std::vector<FrameEntry> frames;
  std::size_t size = 0;
  for (const auto& piece : pieces) {
    for (auto frame : piece.frames) frames.push_back({frame.offset + size, frame.first_block, 0});
    size += piece.bytes.size();
  }
  frames.push_back({size, static_cast<std::uint32_t>(parts.blocks().size()), 0});
  auto table_bytes = frames.size() * sizeof(FrameEntry);
  auto text = Region::make(std::max<std::size_t>(size, 1));
  auto table = Region::make(table_bytes);
  if (!text || !table) return fail(Errc::overloaded, "the system has no more memory");
  auto* out = (*text)->data();
  for (const auto& piece : pieces) {
    if (!piece.bytes.empty()) std::memcpy(out, piece.bytes.data(), piece.bytes.size());
    out += piece.bytes.size();
  }
  std::memcpy((*table)->data(), frames.data(), table_bytes);
  parts.at(SectionKind::text) = Section::whole(std::move(*text), std::max<std::size_t>(size, 1));
  parts.at(SectionKind::frames) = Section::whole(std::move(*table), table_bytes);
  parts.is_warm = true;
  return ok;
}

}  // namespace

Result<std::shared_ptr<const Segment>> cooled(const Segment& segment, const BuildTerms& terms) {
  auto parts = std::make_unique<Segment::Parts>(segment.parts());
  if (segment.is_warm()) return std::make_shared<const Segment>(std::move(parts));
  // For a moment the packed text exists twice.
  if (parts->memory() + segment.arena().size() > terms.memory_bytes)
    return fail(Errc::overloaded, "packing needs more than the {} MB allowed",
                terms.memory_bytes >> 20);
  auto begins = frame_begins(*parts);
  auto threads = static_cast<std::size_t>(std::max(1, terms.threads));
  std::vector<Packed> pieces(threads);
  auto packed = in_parallel(static_cast<int>(threads), [&](int thread) {
    auto mine = static_cast<std::size_t>(thread), count = begins.size() - 1;
    auto first = count * mine / threads, last = count * (mine + 1) / threads;
    return pack_frames(segment.parts(), std::span(begins).subspan(first, last - first + 1),
                       pieces[mine]);
  });
  if (!packed) return std::unexpected(packed.error());
  auto joined = join(pieces, *parts);
  if (!joined) return std::unexpected(joined.error());
  return std::make_shared<const Segment>(std::move(parts));
}

Result<std::shared_ptr<const Segment>> heated(const Segment& segment, const BuildTerms& terms) {
  auto parts = std::make_unique<Segment::Parts>(segment.parts());
  if (!segment.is_warm()) return std::make_shared<const Segment>(std::move(parts));
  auto size = parts->files().back().offset + text_slack;
  if (parts->memory() + in_pages(size) > terms.memory_bytes)
    return fail(Errc::overloaded, "the text needs more than the {} MB allowed",
                terms.memory_bytes >> 20);
  auto text = Region::make(size);
  if (!text) return std::unexpected(text.error());
  auto* arena = reinterpret_cast<char*>((*text)->data());
  auto frames = parts->at(SectionKind::frames).as<FrameEntry>().size() - 1;
  auto threads = static_cast<std::size_t>(std::max(1, terms.threads));
  auto done = in_parallel(static_cast<int>(threads), [&](int thread) -> Result<> {
    for (auto place = static_cast<std::size_t>(thread); place < frames; place += threads) {
      auto frame = frame_at(segment.parts(), place);
      unpack(frame, arena + frame.begin);
    }
    return ok;
  });
  if (!done) return std::unexpected(done.error());
  parts->at(SectionKind::text) = Section::whole(std::move(*text), size);
  parts->at(SectionKind::frames) = {};
  parts->is_warm = false;
  return std::make_shared<const Segment>(std::move(parts));
}

std::string_view warm_block(const Segment::Parts& parts, std::uint32_t block) {
  auto place = frame_of(parts, block);
  auto begin = parts.blocks()[block].offset();
  return {open_frame(parts, place) + (begin - frame_at(parts, place).begin),
          block_end(parts, block) - begin};
}

std::string_view warm_text(const Segment::Parts& parts, std::uint32_t file) {
  auto files = parts.files();
  const auto& entry = files[file];
  if (entry.size == 0) return {};
  auto first = frame_of(parts, entry.first_block);
  auto last = frame_of(parts, files[file + 1].first_block - 1);
  auto begin = frame_at(parts, first).begin;
  if (first == last) return {open_frame(parts, first) + (entry.offset - begin), entry.size};
  bool is_new = false;
  auto& slot =
      slots().at(parts.at(SectionKind::text).region, std::uint64_t{1} << 63 | file, is_new);
  if (is_new) {
    std::vector<char> frame_text;
    auto* out = make_room(slot, entry.size);
    for (auto place = first; place <= last; ++place) {
      auto frame = frame_at(parts, place);
      frame_text.resize(frame.end - frame.begin);
      unpack(frame, frame_text.data());
      auto from = std::max<std::size_t>(frame.begin, entry.offset);
      auto to = std::min<std::size_t>(frame.end, entry.offset + entry.size);
      std::memcpy(out + (from - entry.offset), frame_text.data() + (from - frame.begin), to - from);
    }
  }
  return {slot.bytes.data(), entry.size};
}

bool has_sound_frames(const Segment::Parts& parts) {
  const auto& section = parts.at(SectionKind::frames);
  auto frames = section.as<FrameEntry>();
  auto count = parts.blocks().size();
  if (frames.empty() || section.size % sizeof(FrameEntry) != 0) return false;
  if (frames[0].first_block != 0 || frames[0].offset != 0) return false;
  if (frames.back().first_block != count || (count > 0 && frames.size() < 2)) return false;
  for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
    const auto &frame = frames[i], &next = frames[i + 1];
    if (next.offset < frame.offset || next.first_block <= frame.first_block) return false;
    if (next.first_block > count) return false;
    auto size = raw_begin(parts, next.first_block) - raw_begin(parts, frame.first_block);
    // A frame never unpacks to more than 255 times its size.
    if (size > LZ4_MAX_INPUT_SIZE || size / 256 > next.offset - frame.offset) return false;
  }
  return frames.back().offset <= parts.at(SectionKind::text).size;
}

}  // namespace warren::search
