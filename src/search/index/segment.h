#pragma once
// A segment: text in memory, and an index that says which of its blocks may contain a match.
//
//   arena   file NUL file NUL …            in the order in which results are worth showing
//   blocks  |~4 KB|~4 KB|…                 whole lines of one file: a line is never in two blocks
//                                          (a block with a longer line is as long as that line)
//   index   key of 3 bytes -> blocks       18 bits: each byte is one of 64 classes, letters folded
//
// Every candidate block is checked, so the index may report too many blocks, but never too few. It
// is small (0.17 bytes per byte of text) because it stores blocks, not positions: memory is so fast
// that scanning 4 KB costs less than one entry per occurrence would.
//
// A segment is immutable and position-independent: any number of threads can read it, and it can be
// written to a file and mapped again, or sent to another machine byte for byte.
//
// Rejected: splitting lines of more than 64 KB. The keys of `a.*b` would then be in two blocks, and
// the index would report too few. The size limit of a file bounds the cost of long lines.
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
// 26 letters, 10 digits, 24 punctuation characters, three classes for non-ASCII bytes, and one for
// everything else.
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
  std::string_view blob;  // git's id in binary form; empty outside git
  std::uint32_t first_block = 0, block_count = 0;
  FileClass file_class = FileClass::code;
  std::string_view language;  // "C++"; empty if unknown
};

enum BlockFlags : std::uint8_t { block_ascii = 1, block_utf8 = 2 };
struct BlockView {
  std::string_view text;  // whole lines, with their line ends
  std::uint32_t file = 0;
  std::uint32_t first_line = 1;  // within the file, counted from 1
  std::uint8_t flags = 0;
};

// Where a name is defined.
struct Symbol {
  std::string_view name;
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  std::string_view kind;    // "function"
  std::string_view parent;  // empty if none
};

// Exact numbers of bytes, by purpose.
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
  std::uint64_t identity() const { return identity_; }  // a hash of name and version
  const std::vector<std::string>& branches() const;
  const std::vector<Skipped>& skipped() const;

  std::uint32_t file_count() const;
  FileView file(std::uint32_t place) const;
  bool is_on_branch(std::uint32_t file, std::uint16_t branch) const;
  bool is_dead(std::uint32_t file) const;  // replaced by a newer segment
  std::uint32_t block_count() const;
  BlockView block(std::uint32_t place) const;
  std::string_view text(std::uint32_t file) const;
  // The whole arena, from the first block to the last. 64 bytes beyond it are readable.
  std::string_view arena() const;
  // A warm segment keeps its text compressed. arena() is empty, and block() and text() return a
  // copy that stays valid until this thread has requested 32 other blocks or texts.
  bool is_warm() const;

  // Moves the text into huge pages, which makes scans half as fast again. It takes about a second
  // per GB, so it is not part of a build. Readers continue meanwhile.
  void use_huge_pages() const;

  bool has_index() const;  // without one, every block is a candidate
  // How many blocks have the key, and their places in ascending order.
  std::uint32_t posting_count(std::uint32_t key) const;
  void decode_postings(std::uint32_t key, std::vector<std::uint32_t>& into) const;
  // Removes the places without the key from `candidates`.
  void intersect(std::uint32_t key, std::vector<std::uint32_t>& candidates) const;

  bool has_symbols() const;
  // Symbols with exactly this name, then those that differ only in case. `visit` returns false to
  // stop.
  void find_symbols(std::string_view name, const std::function<bool(const Symbol&)>& visit) const;
  void each_symbol(const std::function<bool(const Symbol&)>& visit) const;
  // All names, each followed by NUL, and the symbols whose name begins at this byte of them: a
  // pattern can be searched for in the names at memory speed.
  std::string_view symbol_names() const;
  void symbols_named_at(std::size_t place, const std::function<bool(const Symbol&)>& visit) const;

  SegmentMemory memory() const;

  // Saves to a file and loads it again. Loading a file that is truncated, damaged or of another
  // version fails with Errc::invalid. At any time the file is either the old one or complete. With
  // `safe` it is on disk before this returns. Errc::overloaded: the disk is full.
  enum class Saving : std::uint8_t { safe, quick };
  Result<> save(const std::string& path, Saving saving = Saving::safe) const;
  // `known`: the caller knows that the file is unchanged since it was saved. Then only its sizes
  // are checked, and its pages are loaded on demand.
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
  std::size_t memory_bytes = std::size_t{8} << 30;  // beyond this, Errc::overloaded
  int threads = 2;
  bool with_index = true;
  std::size_t block_bytes = 4096;
  // Called now and then, on the building thread, with the completed share of the build, 0 to 1.
  std::function<void(double part)> progress = nullptr;
};

// Collects documents, then makes a segment of them. Its destructor frees what it still holds.
class SegmentBuilder {
 public:
  explicit SegmentBuilder(BuildTerms terms = {});
  ~SegmentBuilder();
  Result<> add(Document&& document);
  // Searchable as soon as the text is in place: until with_index(), every block is a candidate.
  Result<std::shared_ptr<const Segment>> scannable(Source source);
  static Result<std::shared_ptr<const Segment>> with_index(const Segment& scannable,
                                                           const BuildTerms& terms);
  // scannable() and with_index() in one step.
  Result<std::shared_ptr<const Segment>> build(Source source);

 private:
  struct Pile;
  std::unique_ptr<Pile> pile_;
};

}  // namespace warren::search
