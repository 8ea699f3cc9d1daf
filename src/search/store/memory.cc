#include "search/store/memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include "search/index/parts.h"
#include "search/index/postings.h"
#include "search/query/candidates.h"

namespace warren::search {

namespace {

// Measured on the sources of git, PostgreSQL and Linux.
constexpr double postings_per_byte = 0.135;
constexpr double block_fill = 0.985;  // a block ends with a line
// Two copies of the text, one of them on the heap that is never returned, and the keys of the
// index.
constexpr double peak_per_byte = 2.35;
constexpr std::size_t peak_per_file = 640;
constexpr std::size_t peak_per_thread = 2u << 20;
constexpr std::size_t peak_at_least = 4u << 20;
constexpr std::size_t least_text = 512u << 10;  // a smaller text has no index

bool is_binary_by_name(std::string_view path) {
  static const std::unordered_set<std::string_view> endings{
      "png",  "jpg", "jpeg", "gif",   "ico",  "bmp",    "webp",  "pdf", "zip", "gz",    "bz2",
      "xz",   "zst", "7z",   "tar",   "jar",  "war",    "class", "o",   "a",   "so",    "dll",
      "exe",  "bin", "woff", "woff2", "ttf",  "otf",    "eot",   "mp3", "mp4", "wav",   "ogg",
      "webm", "mo",  "gmo",  "pyc",   "wasm", "bundle", "pack",  "idx", "db",  "sqlite"};
  auto dot = path.rfind('.');
  if (dot == path.npos || path.size() - dot > 8) return false;
  std::string ending(path.substr(dot + 1));
  for (char& c : ending) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return endings.contains(ending);
}

// How many of the 2^18 keys occur in this much text.
std::size_t keys_in(double bytes) { return static_cast<std::size_t>(26.0 * std::pow(bytes, 0.44)); }

}  // namespace

SegmentMemory memory_of(std::span<const std::shared_ptr<const Segment>> segments) {
  std::unordered_set<const void*> seen;
  auto is_new = [&](const void* what) { return what != nullptr && seen.insert(what).second; };
  SegmentMemory memory;
  for (const auto& segment : segments) {
    if (!is_new(segment.get())) continue;
    const auto& parts = segment->parts();
    auto of = [&](SectionKind kind) {
      const auto& section = parts.at(kind);
      return section.size > 0 && is_new(section.data) ? section.memory() : 0;
    };
    memory.text += of(SectionKind::text) + of(SectionKind::frames);
    memory.postings += of(SectionKind::postings);
    memory.directory += of(SectionKind::directory);
    memory.blocks += of(SectionKind::blocks);
    memory.symbols += of(SectionKind::symbols) + of(SectionKind::symbol_names);
    memory.files += of(SectionKind::files) + of(SectionKind::paths) + of(SectionKind::branches) +
                    of(SectionKind::blobs) + memory_of(parts.source) +
                    parts.dead.size() * sizeof(std::uint64_t);
    auto index = parts.path_index.get();
    if (is_new(index.get())) memory.files += index->memory();
  }
  return memory;
}

MemoryForecast forecast_memory(const Listing& listing, const BuildTerms& terms) {
  std::size_t text = 2 * text_slack, any = 0, files = 0, blocks = 0, paths = 0, blobs = 0,
              names = 0;
  auto row = listing.source.branches.size() < 2 ? 0 : (listing.source.branches.size() + 7) / 8;
  auto block = static_cast<std::size_t>(static_cast<double>(terms.block_bytes) * block_fill);
  for (const auto& entry : listing.entries) {
    any += entry.size + 1;
    names += entry.path.size() + entry.blob.size();
    if (is_binary_by_name(entry.path)) continue;
    text += entry.size + 1;
    blocks += (entry.size + block - 1) / block;
    paths += entry.path.size();
    blobs = std::max(blobs, entry.blob.size() / 2);
    ++files;
  }
  MemoryForecast forecast;
  auto take = [&](std::size_t bytes) { forecast.steady += in_pages(bytes); };
  take(text);
  take(blocks * sizeof(BlockEntry));
  take((files + 1) * sizeof(FileEntry));
  take(paths);
  take(files * blobs);
  take(files * row);
  forecast.steady += memory_of(listing.source);
  if (terms.with_index && text - 2 * text_slack >= least_text) {
    auto bytes = static_cast<double>(text);
    take(static_cast<std::size_t>(bytes * postings_per_byte) + postings_slack);
    take(directory_bytes(std::min<std::size_t>(key_count, keys_in(bytes))));
  }
  forecast.peak = static_cast<std::size_t>(static_cast<double>(any) * peak_per_byte) + 2 * names +
                  listing.entries.size() * peak_per_file +
                  static_cast<std::size_t>(std::max(1, terms.threads)) * peak_per_thread +
                  peak_at_least;
  forecast.peak = std::max(forecast.peak, forecast.steady);
  return forecast;
}

}  // namespace warren::search
