#include "search/index/segment.h"

#include "search/answer/cursor.h"
#include "search/index/parts.h"
#include "search/index/postings.h"
#include "search/index/warm.h"
#include "search/query/candidates.h"
#include "search/source/classify.h"

namespace warren::search {

namespace {

std::size_t memory_of(const std::string& text) {
  return sizeof(std::string) + (text.capacity() > 15 ? text.capacity() + 1 : 0);
}

}  // namespace

std::string_view name(SectionKind kind) {
  constexpr std::array<std::string_view, section_count> names{
      "text",      "blocks",   "files",   "paths",        "branches", "blobs",
      "directory", "postings", "symbols", "symbol names", "frames"};
  return names[static_cast<std::size_t>(kind)];
}

std::size_t memory_of(const Source& source) {
  std::size_t bytes = memory_of(source.name) + memory_of(source.version);
  for (const auto& branch : source.branches) bytes += memory_of(branch);
  for (const auto& skipped : source.skipped)
    bytes += memory_of(skipped.path) + memory_of(skipped.reason) + memory_of(skipped.blob);
  return bytes;
}

std::size_t Segment::Parts::memory() const {
  std::size_t bytes = memory_of(source) + dead.size() * sizeof(std::uint64_t);
  for (const auto& section : sections) bytes += section.memory();
  if (auto index = path_index.get()) bytes += index->memory();
  return bytes;
}

Segment::Segment(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)), identity_(hash_of(version(), hash_of(name()))) {}
Segment::~Segment() = default;

const std::string& Segment::name() const { return parts_->source.name; }
const std::string& Segment::version() const { return parts_->source.version; }
const std::vector<std::string>& Segment::branches() const { return parts_->source.branches; }
const std::vector<Skipped>& Segment::skipped() const { return parts_->source.skipped; }

std::uint32_t Segment::file_count() const { return parts_->file_count(); }

FileView Segment::file(std::uint32_t place) const {
  auto files = parts_->files();
  ensure(place + 1 < files.size(), "a segment has this file");
  const auto &file = files[place], &next = files[place + 1];
  FileView view;
  view.path = {parts_->at(SectionKind::paths).chars() + file.path, next.path - file.path};
  if (!is_warm()) view.text = {parts_->at(SectionKind::text).chars() + file.offset, file.size};
  view.blob = {parts_->at(SectionKind::blobs).chars() + place * parts_->blob_bytes,
               parts_->blob_bytes};
  view.first_block = file.first_block;
  view.block_count = next.first_block - file.first_block;
  view.file_class = file.file_class;
  view.language = language_name(file.language);
  return view;
}

bool Segment::is_on_branch(std::uint32_t file, std::uint16_t branch) const {
  if (branch >= parts_->source.branches.size()) return false;
  auto row = parts_->branch_bytes();
  if (row == 0) return true;
  auto bits = parts_->at(SectionKind::branches).as<std::uint8_t>();
  return (bits[file * row + branch / 8] >> (branch % 8) & 1) != 0;
}

bool Segment::is_dead(std::uint32_t file) const {
  return !parts_->dead.empty() && (parts_->dead[file / 64] >> (file % 64) & 1) != 0;
}

std::uint32_t Segment::block_count() const {
  return static_cast<std::uint32_t>(parts_->blocks().size());
}

BlockView Segment::block(std::uint32_t place) const {
  auto blocks = parts_->blocks();
  ensure(place < blocks.size(), "a segment has this block");
  const auto& block = blocks[place];
  BlockView view;
  if (is_warm())
    view.text = warm_block(*parts_, place);
  else
    view.text = {parts_->at(SectionKind::text).chars() + block.offset(),
                 block_end(*parts_, place) - block.offset()};
  view.file = block.file;
  view.first_line = block.first_line;
  view.flags = block.flags();
  return view;
}

std::string_view Segment::text(std::uint32_t file) const {
  return is_warm() ? warm_text(*parts_, file) : this->file(file).text;
}

std::string_view Segment::arena() const {
  if (is_warm()) return {};
  const auto& text = parts_->at(SectionKind::text);
  return {text.chars() + text_slack, text.size - 2 * text_slack};
}

void Segment::use_huge_pages() const {
  const auto& text = parts_->at(SectionKind::text);
  if (text.region) text.region->use_huge_pages();
}

bool Segment::is_warm() const { return parts_->is_warm; }

bool Segment::has_index() const { return parts_->at(SectionKind::directory).size > 0; }

std::uint32_t Segment::posting_count(std::uint32_t key) const {
  auto list = find_list(*parts_, key);
  return list ? list->count() : 0;
}

void Segment::decode_postings(std::uint32_t key, std::vector<std::uint32_t>& into) const {
  into.clear();
  if (auto list = find_list(*parts_, key)) list->decode(into);
}

void Segment::intersect(std::uint32_t key, std::vector<std::uint32_t>& candidates) const {
  auto list = find_list(*parts_, key);
  if (!list) return candidates.clear();
  list->intersect(candidates);
}

SegmentMemory Segment::memory() const {
  auto of = [this](SectionKind kind) { return parts_->at(kind).memory(); };
  SegmentMemory memory;
  memory.text = of(SectionKind::text) + of(SectionKind::frames);
  memory.postings = of(SectionKind::postings);
  memory.directory = of(SectionKind::directory);
  memory.blocks = of(SectionKind::blocks);
  memory.symbols = of(SectionKind::symbols) + of(SectionKind::symbol_names);
  memory.files = parts_->memory() - memory.total();
  return memory;
}

}  // namespace warren::search
