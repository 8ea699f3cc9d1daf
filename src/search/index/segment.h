#pragma once
// A segment: text in memory and an index that says which of its blocks may hold a match.
//
//   arena   file NUL file NUL …            in the order in which results are worth showing
//   blocks  |~4 KB|~4 KB|…                 whole lines of one file: a line is never in two blocks
//                                          (a block with a longer line is as long as that line)
//   index   key of 3 bytes -> blocks       18 bits: each byte is one of 64 classes, letters folded
//
// A candidate block is looked at, so the index may say too much and never too little. It is small
// (0.17 bytes per byte of text) because it knows blocks, not positions: memory is so fast that a
// look at 4 KB costs less than an entry per occurrence would.
//
// Immutable and position-independent: it can be read by any number of threads, written to a file
// and mapped again, or sent to another machine byte for byte.
//
// Rejected: cutting lines of more than 64 KB. `a.*b` would then have its keys in two blocks, and
// the index would say too little. What long lines cost is bounded by the size limit of a file.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "search/source/document.h"

namespace warren::search {

inline constexpr std::uint32_t key_count = 1u << 18;
// 26 letters, 10 digits, 24 signs; three classes for what is not ASCII, one for all the rest.
inline constexpr auto byte_classes = [] {
  std::array<std::uint8_t, 256> classes{};
  classes.fill(63);
  std::uint8_t next = 0;
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = classes[c - 'a' + 'A'] = next++;
  for (int c = '0'; c <= '9'; ++c) classes[c] = next++;
  for (unsigned char c : std::string_view("_ \t\n();,.*->=/\"#<&{}:[]+")) classes[c] = next++;
  for (int c = 0x80; c < 0xc0; ++c) classes[c] = static_cast<std::uint8_t>(next + (c & 1));
  for (int c = 0xc0; c <= 0xff; ++c) classes[c] = static_cast<std::uint8_t>(next + 2);
  return classes;
}();
// The class of a byte, 0 to 63, and the key of three bytes.
inline std::uint8_t byte_class(unsigned char byte) { return byte_classes[byte]; }
inline std::uint32_t key_of(unsigned char a, unsigned char b, unsigned char c) {
  return (std::uint32_t{byte_class(a)} << 12) | (std::uint32_t{byte_class(b)} << 6) | byte_class(c);
}

enum class FileClass : std::uint8_t { code, test, documentation, vendored, generated };
std::string_view name(FileClass file_class);

struct FileView {
  std::string_view path;
  std::string_view text;  // empty in a warm segment: see Segment::text
  std::string_view blob;  // git's id as bytes; empty outside of git
  std::uint32_t first_block = 0, block_count = 0;
  FileClass file_class = FileClass::code;
  std::string_view language;  // "C++"; empty: not known
};

enum BlockFlags : std::uint8_t { block_ascii = 1, block_utf8 = 2 };
struct BlockView {
  std::string_view text;  // of the whole lines, with their line ends
  std::uint32_t file = 0;
  std::uint32_t first_line = 1;  // of the file, counted from 1
  std::uint8_t flags = 0;
};

// Where a name is defined.
struct Symbol {
  std::string_view name;
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  std::string_view kind;    // "function"
  std::string_view parent;  // empty: none
};

// Bytes, exactly, by what they are for.
struct SegmentMemory {
  std::size_t text = 0, postings = 0, directory = 0, blocks = 0, files = 0, symbols = 0;
  std::size_t total() const { return text + postings + directory + blocks + files + symbols; }
};

class Segment {
 public:
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const std::string& name() const;  // of the repository
  const std::string& version() const;
  std::uint64_t identity() const { return identity_; }  // a hash of both
  const std::vector<std::string>& branches() const;
  const std::vector<Skipped>& skipped() const;

  std::uint32_t file_count() const;
  FileView file(std::uint32_t place) const;
  bool is_on_branch(std::uint32_t file, std::uint16_t branch) const;
  bool is_dead(std::uint32_t file) const;  // replaced by a newer segment
  std::uint32_t block_count() const;
  BlockView block(std::uint32_t place) const;
  std::string_view text(std::uint32_t file) const;
  // The whole arena: from the first block to the last one, with room to read 64 bytes beyond.
  std::string_view arena() const;
  // A warm segment keeps its text compressed. arena() is empty, and what block() and text() show
  // is a copy that stays until this thread has asked for 32 more blocks or texts.
  bool is_warm() const;

  // Moves the text into huge pages: scans are half as fast again. Takes about a second for each GB,
  // so it is not part of a build; readers go on meanwhile.
  void use_huge_pages() const;

  bool has_index() const;  // without one every block is a candidate
  // How many blocks have the key, and their places, ascending.
  std::uint32_t posting_count(std::uint32_t key) const;
  void decode_postings(std::uint32_t key, std::vector<std::uint32_t>& into) const;
  // Removes from `candidates` what does not have the key.
  void intersect(std::uint32_t key, std::vector<std::uint32_t>& candidates) const;

  bool has_symbols() const;
  // Those of exactly this name, then those that differ in case; `visit` returns false to stop.
  void find_symbols(std::string_view name, const std::function<bool(const Symbol&)>& visit) const;
  void each_symbol(const std::function<bool(const Symbol&)>& visit) const;
  // All names, each ended by a NUL, and those whose name begins at this byte of them: a pattern is
  // found in the names at the speed of memory.
  std::string_view symbol_names() const;
  void symbols_named_at(std::size_t place, const std::function<bool(const Symbol&)>& visit) const;

  SegmentMemory memory() const;

  // To a file and back; a file of another version, truncated or damaged is Errc::invalid. At no
  // time is there half a file, or another one than that. `safe` has it on the disk before it
  // returns. Errc::overloaded: the disk is full.
  enum class Saving : std::uint8_t { safe, quick };
  Result<> save(const std::string& path, Saving saving = Saving::safe) const;
  // `known`: whoever calls knows that the file is as it was saved. Only its sizes are looked at,
  // and its pages come as they are needed.
  enum class Loading : std::uint8_t { checked, known };
  static Result<std::shared_ptr<const Segment>> load(const std::string& path,
                                                     Loading loading = Loading::checked);

  struct Parts;
  explicit Segment(std::unique_ptr<Parts> parts);
  const Parts& parts() const { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
  std::uint64_t identity_;
};

struct BuildTerms {
  std::size_t memory_bytes = std::size_t{8} << 30;  // Errc::overloaded when it would need more
  int threads = 2;
  bool with_index = true;
  std::size_t block_bytes = 4096;
  // How much of a build is done, 0 to 1, now and then; on the thread that builds.
  std::function<void(double part)> progress = nullptr;
};

// Collects documents, then makes a segment of them. What it holds is freed when it is destroyed.
class SegmentBuilder {
 public:
  explicit SegmentBuilder(BuildTerms terms = {});
  ~SegmentBuilder();
  Result<> add(Document&& document);
  // All blocks are candidates until with_index(): searchable the moment the text is there.
  Result<std::shared_ptr<const Segment>> scannable(Source source);
  static Result<std::shared_ptr<const Segment>> with_index(const Segment& scannable,
                                                           const BuildTerms& terms);
  // Both at once.
  Result<std::shared_ptr<const Segment>> build(Source source);

 private:
  struct Pile;
  std::unique_ptr<Pile> pile_;
};

}  // namespace warren::search
