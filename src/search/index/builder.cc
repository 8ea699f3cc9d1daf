#include <algorithm>
#include <cstring>
#include <tuple>

#include "search/index/keys.h"
#include "search/index/parts.h"
#include "search/parallel.h"
#include "search/source/blob_id.h"
#include "search/source/classify.h"

namespace warren::search {

namespace {

struct Item {
  Document document;
  FileClass file_class;
  std::uint16_t language;
};

constexpr std::size_t touched = 512u << 10;  // of the arena, requested at once

// Files in the order in which results are worth showing.
bool is_before(const Item& a, const Item& b) {
  auto rank = [](const Item& item) {
    return std::tuple(item.file_class, item.document.path.size(),
                      std::string_view(item.document.path), std::string_view(item.document.blob));
  };
  return rank(a) < rank(b);
}

std::size_t memory_of(const Item& item) {
  const auto& [path, text, blob, branches] = item.document;
  return sizeof item + path.capacity() + text.capacity() + blob.capacity() +
         branches.capacity() * sizeof(std::uint16_t);
}

// Where the block that begins at `at` ends: after the last line that fits, or after the first line.
std::size_t end_of_block(std::string_view text, std::size_t at, std::size_t block_bytes) {
  if (text.size() - at <= block_bytes) return text.size();
  auto line_end = text.rfind('\n', at + block_bytes - 1);
  if (line_end == std::string_view::npos || line_end < at)
    line_end = text.find('\n', at + block_bytes);
  return line_end == std::string_view::npos ? text.size() : line_end + 1;
}

void cut_into_blocks(std::string_view text, const FileEntry& file, std::uint32_t place,
                     std::size_t block_bytes, std::vector<BlockEntry>& out) {
  std::uint32_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    auto end = end_of_block(text, at, block_bytes);
    auto block = text.substr(at, end - at);
    out.push_back({(file.offset + at) << 8 | block_flags(block), place, line});
    line += count_lines(block);
    at = end;
  }
}

template <class T>
Result<Section> section_of(const std::vector<T>& values) {
  std::size_t bytes = values.size() * sizeof(T);
  auto region = Region::make(bytes);
  if (!region) return std::unexpected(region.error());
  if (bytes > 0) std::memcpy((*region)->data(), values.data(), bytes);
  return Section::whole(std::move(*region), bytes);
}

}  // namespace

struct SegmentBuilder::Pile {
  BuildTerms terms;
  std::vector<Item> items;
  std::size_t memory = 0;
  std::size_t text_bytes = 2 * text_slack;

  Result<> check(std::size_t more) const;
  std::vector<FileEntry> place_files();
  Result<Section> place_text(std::vector<FileEntry>& files, std::vector<BlockEntry>& blocks);
  Result<> describe(Segment::Parts& parts);
};

Result<> SegmentBuilder::Pile::check(std::size_t more) const {
  if (memory + more <= terms.memory_bytes) return ok;
  return fail(Errc::overloaded, "the text needs more than the {} MB allowed",
              terms.memory_bytes >> 20);
}

std::vector<FileEntry> SegmentBuilder::Pile::place_files() {
  std::vector<FileEntry> files;
  files.reserve(items.size() + 1);
  std::uint64_t offset = text_slack;
  std::size_t path = 0;
  for (const auto& item : items) {
    files.push_back({offset, static_cast<std::uint32_t>(item.document.text.size()),
                     static_cast<std::uint32_t>(path), 0, item.language, item.file_class, 0});
    offset += item.document.text.size() + 1;
    path += item.document.path.size();
  }
  files.push_back({offset, 0, static_cast<std::uint32_t>(path), 0, 0, FileClass::code, 0});
  return files;
}

// Copies the texts into place and frees them one by one. Each thread takes a run of files with
// about the same number of bytes.
Result<Section> SegmentBuilder::Pile::place_text(std::vector<FileEntry>& files,
                                                 std::vector<BlockEntry>& blocks) {
  auto text = Region::make(text_bytes);
  if (!text) return std::unexpected(text.error());
  auto* arena = reinterpret_cast<char*>((*text)->data());
  auto threads = static_cast<std::size_t>(std::max(1, terms.threads));
  std::vector<std::vector<BlockEntry>> parts(threads);
  auto begin_of = [&](std::size_t thread) {
    auto offset = text_bytes * thread / threads;
    auto at = std::lower_bound(files.begin(), files.end() - 1, offset,
                               [](const auto& file, auto value) { return file.offset < value; });
    return thread == threads ? items.size() : static_cast<std::size_t>(at - files.begin());
  };
  auto copied = in_parallel(static_cast<int>(threads), [&](int thread) -> Result<> {
    auto mine = static_cast<std::size_t>(thread);
    auto& out = parts[mine];
    std::size_t ready = files[mine == 0 ? 0 : begin_of(mine)].offset;
    for (std::size_t i = mine == 0 ? 0 : begin_of(mine), end = begin_of(mine + 1); i < end; ++i) {
      auto& from = items[i].document.text;
      for (; ready < files[i].offset + from.size(); ready += touched)
        (*text)->touch(ready, touched);
      from.copy(arena + files[i].offset, from.size());
      from = {};
      if (mine == 0 && i % 64 == 0 && terms.progress)
        terms.progress(texts_placed * static_cast<double>(i) / static_cast<double>(end));
      files[i].first_block = static_cast<std::uint32_t>(out.size());
      cut_into_blocks({arena + files[i].offset, files[i].size}, files[i],
                      static_cast<std::uint32_t>(i), terms.block_bytes, out);
    }
    return ok;
  });
  if (!copied) return std::unexpected(copied.error());
  for (std::size_t thread = 0; thread < threads; ++thread) {
    for (std::size_t i = thread == 0 ? 0 : begin_of(thread), end = begin_of(thread + 1); i < end;
         ++i)
      files[i].first_block += static_cast<std::uint32_t>(blocks.size());
    blocks.insert(blocks.end(), parts[thread].begin(), parts[thread].end());
    parts[thread] = {};
  }
  files.back().first_block = static_cast<std::uint32_t>(blocks.size());
  return Section::whole(std::move(*text), text_bytes);
}

// Adds paths, branches and blobs.
Result<> SegmentBuilder::Pile::describe(Segment::Parts& parts) {
  std::vector<char> paths, blobs;
  std::vector<std::uint8_t> branches;
  std::size_t row = parts.branch_bytes();
  for (const auto& item : items)
    parts.blob_bytes = std::max(parts.blob_bytes, item.document.blob.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto& [path, text, blob, on] = items[i].document;
    paths.insert(paths.end(), path.begin(), path.end());
    blobs.insert(blobs.end(), blob.begin(), blob.end());
    blobs.resize((i + 1) * parts.blob_bytes);
    branches.resize((i + 1) * row);
    for (auto branch : on)
      if (row > 0 && branch < parts.source.branches.size())
        branches[i * row + branch / 8] |= static_cast<std::uint8_t>(1u << (branch % 8));
  }
  auto path_section = section_of(paths);
  auto blob_section = section_of(blobs);
  auto branch_section = section_of(branches);
  if (!path_section || !blob_section || !branch_section)
    return fail(Errc::overloaded, "the system has no more memory");
  parts.at(SectionKind::paths) = std::move(*path_section);
  parts.at(SectionKind::blobs) = std::move(*blob_section);
  parts.at(SectionKind::branches) = std::move(*branch_section);
  return ok;
}

SegmentBuilder::SegmentBuilder(BuildTerms terms) : pile_(std::make_unique<Pile>()) {
  pile_->terms = terms;
}
SegmentBuilder::~SegmentBuilder() = default;

Result<> SegmentBuilder::add(Document&& document) {
  auto& pile = *pile_;
  if (document.text.size() >= UINT32_MAX)
    return fail(Errc::overloaded, "{} has more than 4 GB", document.path);
  Item item{std::move(document), FileClass::code, 0};
  item.document.blob = raw_id(item.document.blob);
  item.file_class = file_class_of(item.document.path, item.document.text);
  item.language = language_of(item.document.path, item.document.text);
  auto bytes = memory_of(item);
  auto fits = pile.check(bytes);
  if (!fits) return fits;
  pile.memory += bytes;
  pile.text_bytes += item.document.text.size() + 1;
  pile.items.push_back(std::move(item));
  return ok;
}

Result<std::shared_ptr<const Segment>> SegmentBuilder::scannable(Source source) {
  auto pile = std::exchange(pile_, std::make_unique<Pile>());
  pile_->terms = pile->terms;
  // Allows 16 bytes per KB for blocks and files, and twice as much while they are moved.
  auto fits = pile->check(in_pages(pile->text_bytes) + pile->text_bytes / 32 +
                          pile->items.size() * 2 * (sizeof(FileEntry) + sizeof(BlockEntry)));
  if (!fits) return std::unexpected(fits.error());
  std::sort(pile->items.begin(), pile->items.end(), is_before);
  auto parts = std::make_unique<Segment::Parts>();
  parts->source = std::move(source);
  auto files = pile->place_files();
  std::vector<BlockEntry> blocks;
  auto text = pile->place_text(files, blocks);
  if (!text) return std::unexpected(text.error());
  parts->at(SectionKind::text) = std::move(*text);
  auto described = pile->describe(*parts);
  if (!described) return std::unexpected(described.error());
  auto file_section = section_of(files);
  auto block_section = section_of(blocks);
  if (!file_section || !block_section)
    return fail(Errc::overloaded, "the system has no more memory");
  parts->at(SectionKind::files) = std::move(*file_section);
  parts->at(SectionKind::blocks) = std::move(*block_section);
  return std::make_shared<const Segment>(std::move(parts));
}

Result<std::shared_ptr<const Segment>> SegmentBuilder::build(Source source) {
  auto made = scannable(std::move(source));
  if (!made || !pile_->terms.with_index) return made;
  return with_index(**made, pile_->terms);
}

}  // namespace warren::search
