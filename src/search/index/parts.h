#pragma once
// The parts of a segment: arrays without pointers, each in its own section.
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "search/index/region.h"
#include "search/index/segment.h"

namespace warren::search {

enum class SectionKind : std::uint8_t {
  text,       // 64 zeros, then each file followed by NUL, then 64 zeros
  blocks,     // BlockEntry
  files,      // FileEntry, plus one that marks the end of the last file
  paths,      // concatenated
  branches,   // a row of bits per file, if there are several branches
  blobs,      // ids, all of the same length
  directory,  // see postings.h
  postings,
  symbols,       // see symbols.h
  symbol_names,  // see symbols.h
  frames,        // only in a warm segment: see warm.h
};
inline constexpr std::size_t section_count = 11;
std::string_view name(SectionKind kind);

inline constexpr std::size_t text_slack = 64;

// How much of a build is done once texts are in place, and once their keys are collected: shares of
// the measured build time.
inline constexpr double texts_placed = 0.15, keys_collected = 0.75;

struct BlockEntry {
  std::uint64_t offset_and_flags;  // position in the text section << 8 | flags
  std::uint32_t file;
  std::uint32_t first_line;

  std::uint64_t offset() const { return offset_and_flags >> 8; }
  std::uint8_t flags() const { return static_cast<std::uint8_t>(offset_and_flags & 0xff); }
};

struct FileEntry {
  std::uint64_t offset;
  std::uint32_t size;
  std::uint32_t path;  // where its path begins; it ends where the next one begins
  std::uint32_t first_block;
  std::uint16_t language;
  FileClass file_class;
  std::uint8_t reserved;
};
static_assert(sizeof(BlockEntry) == 16 && sizeof(FileEntry) == 24);

class PathIndex;
// The index of paths (see candidates.h), built only when it is needed repeatedly: for a single
// query, as from a command line, scanning all paths is cheaper. Equal owners: all segments derived
// from one without a change of paths, by adding an index, symbols or dead files. Any thread may use
// it.
class PathIndexSlot {
 public:
  PathIndexSlot() = default;
  PathIndexSlot(const PathIndexSlot& other) : index_(other.get()) {}
  PathIndexSlot& operator=(const PathIndexSlot&) = delete;
  ~PathIndexSlot() = default;

  std::shared_ptr<const PathIndex> get() const {
    std::lock_guard lock(mutex_);
    return index_;
  }
  // Returns null if there is none yet.
  template <class Make>
  std::shared_ptr<const PathIndex> get_or(const Make& make) const {
    std::lock_guard lock(mutex_);
    if (index_ == nullptr && ++asked_ > 2) index_ = make();
    return index_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const PathIndex> index_;
  mutable int asked_ = 0;
};

struct Segment::Parts {
  Source source;
  std::array<Section, section_count> sections;
  std::vector<std::uint64_t> dead = {};  // one bit per file; empty if all are live
  std::size_t blob_bytes = 0;            // per id
  bool is_warm = false;
  PathIndexSlot path_index = {};

  const Section& at(SectionKind kind) const { return sections[static_cast<std::size_t>(kind)]; }
  Section& at(SectionKind kind) { return sections[static_cast<std::size_t>(kind)]; }
  std::span<const BlockEntry> blocks() const { return at(SectionKind::blocks).as<BlockEntry>(); }
  std::span<const FileEntry> files() const { return at(SectionKind::files).as<FileEntry>(); }
  std::uint32_t file_count() const { return static_cast<std::uint32_t>(files().size()) - 1; }
  std::size_t branch_bytes() const {
    return source.branches.size() < 2 ? 0 : (source.branches.size() + 7) / 8;
  }
  std::size_t memory() const;  // all sections, the source's strings and the index of paths
};

// Where a block ends in the text section.
inline std::uint64_t block_end(const Segment::Parts& parts, std::uint32_t place) {
  auto blocks = parts.blocks();
  auto files = parts.files();
  std::uint32_t file = blocks[place].file;
  if (place + 1 < files[file + 1].first_block) return blocks[place + 1].offset();
  return files[file].offset + files[file].size;
}

std::size_t memory_of(const Source& source);

}  // namespace warren::search
