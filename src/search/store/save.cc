// A segment as a file: a head with sizes, then the sections as they are in memory, each at a page's
// begin, so that they can be mapped. The checksum covers every byte of the file but its own.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "search/index/parts.h"
#include "search/index/postings.h"
#include "search/index/symbols.h"
#include "search/index/warm.h"
#include "search/source/classify.h"

namespace warren::search {

namespace {

constexpr std::uint64_t magic = 0x31676573'6e727277;  // "wrrnseg1": a new number for a new layout

struct Head {
  std::uint64_t magic = 0;
  std::uint64_t checksum = 0;  // of the whole file with this word being 0
  std::uint64_t file_bytes = 0;
  std::uint64_t blob_bytes = 0;
  std::uint64_t is_warm = 0;
  std::uint64_t source_bytes = 0;  // strings, in pages of their own behind the head
  std::array<std::uint64_t, section_count> sizes{};
};
static_assert(sizeof(Head) <= page_bytes);

// Any change of a single word changes its lane, whatever the others hold.
class Checksum {
 public:
  void add(const std::byte* pages, std::size_t size) {
    constexpr std::uint64_t odd = 0x9fb21c651e98df25;
    for (const auto* end = pages + size; pages != end; pages += 32) {
      std::array<std::uint64_t, 4> words;
      std::memcpy(words.data(), pages, 32);
      for (std::size_t i = 0; i < 4; ++i) lanes_[i] = (std::rotl(lanes_[i], 29) ^ words[i]) * odd;
    }
  }
  std::uint64_t value() const {
    return lanes_[0] ^ std::rotl(lanes_[1], 17) ^ std::rotl(lanes_[2], 31) ^
           std::rotl(lanes_[3], 47);
  }

 private:
  std::array<std::uint64_t, 4> lanes_{1, 2, 3, 4};
};

void put(std::string& out, std::uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void put(std::string& out, const std::string& text) {
  put(out, text.size());
  out += text;
}

struct Taker {
  std::string_view rest;
  bool is_good = true;

  std::uint64_t number() {
    std::uint64_t value = 0;
    is_good = is_good && rest.size() >= sizeof value;
    if (!is_good) return 0;
    std::memcpy(&value, rest.data(), sizeof value);
    rest.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    auto size = number();
    is_good = is_good && size <= rest.size();
    if (!is_good) return {};
    std::string value(rest.substr(0, size));
    rest.remove_prefix(size);
    return value;
  }
};

std::string pack(const Segment::Parts& parts) {
  const auto& source = parts.source;
  std::string out;
  put(out, source.name);
  put(out, source.version);
  put(out, source.branches.size());
  for (const auto& branch : source.branches) put(out, branch);
  put(out, source.skipped.size());
  for (const auto& [path, reason, blob] : source.skipped) {
    put(out, path);
    put(out, reason);
    put(out, blob);
  }
  put(out, parts.dead.size());
  for (auto bits : parts.dead) put(out, bits);
  return out;
}

bool unpack(std::string_view packed, Segment::Parts& parts) {
  Taker from{packed};
  auto& source = parts.source;
  source.name = from.text();
  source.version = from.text();
  for (auto count = from.number(); count > 0 && from.is_good; --count)
    source.branches.push_back(from.text());
  for (auto count = from.number(); count > 0 && from.is_good; --count) {
    auto& skipped = source.skipped.emplace_back();
    skipped.path = from.text();
    skipped.reason = from.text();
    skipped.blob = from.text();
  }
  for (auto count = from.number(); count > 0 && from.is_good; --count)
    parts.dead.push_back(from.number());
  source.branches.shrink_to_fit();
  source.skipped.shrink_to_fit();
  return from.is_good && from.rest.empty();
}

// What readers rely on, so that a file with a right checksum and wrong contents is harmless too.
bool is_sound(const Segment::Parts& parts) {
  const auto& files_section = parts.at(SectionKind::files);
  if (files_section.size < sizeof(FileEntry) || files_section.size % sizeof(FileEntry) != 0)
    return false;
  auto files = parts.files();
  auto blocks = parts.blocks();
  auto count = files.size() - 1;
  auto text_size = files[count].offset + text_slack;
  if (!parts.is_warm && parts.at(SectionKind::text).size != text_size) return false;
  if (parts.at(SectionKind::paths).size != files[count].path) return false;
  if (parts.at(SectionKind::blobs).size != count * parts.blob_bytes) return false;
  if (parts.at(SectionKind::branches).size != count * parts.branch_bytes()) return false;
  if (!parts.dead.empty() && parts.dead.size() < (count + 63) / 64) return false;
  if (blocks.size() != files[count].first_block || files[0].offset != text_slack) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto &file = files[i], &next = files[i + 1];
    if (next.path < file.path || next.first_block < file.first_block ||
        next.offset != file.offset + file.size + 1 || file.language >= language_count() ||
        file.file_class > FileClass::generated)
      return false;
    auto begin = file.offset;
    for (auto block = file.first_block; block < next.first_block; ++block) {
      auto offset = blocks[block].offset();
      if (blocks[block].file != i || offset < begin || offset >= file.offset + file.size)
        return false;
      begin = offset + 1;
    }
  }
  return has_sound_directory(parts) && has_sound_symbols(parts) &&
         (!parts.is_warm || has_sound_frames(parts));
}

// Writes a file that has no name until it is whole, so that a process that ends in between leaves
// nothing. Where the file system cannot do that, it has another name meanwhile.
class Writer {
 public:
  explicit Writer(const std::string& path) : path_(path), temporary_(path + ".XXXXXX") {
    auto slash = path.rfind('/');
    auto folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    // For its owner alone, as the texts may be.
    file_ = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file_ >= 0) return;
    file_ = mkostemp(temporary_.data(), O_CLOEXEC);
    has_name_ = file_ >= 0;
  }
  ~Writer() {
    if (file_ >= 0) close(file_);
    if (has_name_) unlink(temporary_.c_str());
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  bool write(const void* data, std::size_t size) {
    const auto* at = static_cast<const char*>(data);
    while (size > 0) {
      auto wrote = ::write(file_, at, std::min<std::size_t>(size, 64u << 20));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return false;
      at += wrote;
      size -= static_cast<std::size_t>(wrote);
    }
    return true;
  }
  Result<> finish(Segment::Saving saving) {
    if (saving == Segment::Saving::safe && fsync(file_) != 0) return failure();
    if (!has_name_ && !give_name()) return failure();
    if (rename(temporary_.c_str(), path_.c_str()) != 0) return failure();
    has_name_ = false;
    return ok;
  }
  bool is_open() const { return file_ >= 0; }
  std::unexpected<Error> failure() const {
    auto code = errno == ENOSPC || errno == EDQUOT ? Errc::overloaded : Errc::unavailable;
    return fail(code, "{} cannot be written: {}", path_, std::strerror(errno));
  }

 private:
  // A link replaces nothing, so that it takes a name of its own on the way to a rename.
  bool give_name() {
    auto open_file = fmt::format("/proc/self/fd/{}", file_);
    for (int attempt = 0; attempt < 100; ++attempt) {
      temporary_ = fmt::format("{}.{:x}.{}", path_, getpid(), attempt);
      if (linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) == 0)
        return has_name_ = true;
      if (errno != EEXIST) return false;
    }
    return false;
  }

  std::string path_, temporary_;
  int file_ = -1;
  bool has_name_ = false;
};

}  // namespace

Result<> Segment::save(const std::string& path, Saving saving) const {
  Head head;
  head.magic = magic;
  auto source = pack(*parts_);
  head.source_bytes = source.size();
  head.blob_bytes = parts_->blob_bytes;
  head.is_warm = parts_->is_warm ? 1 : 0;
  head.file_bytes = page_bytes + in_pages(source.size());
  for (std::size_t i = 0; i < section_count; ++i) {
    head.sizes[i] = parts_->sections[i].size;
    head.file_bytes += in_pages(parts_->sections[i].size);
  }
  // A region ends with its page, so that sections are written in whole pages.
  std::vector<std::byte> front(page_bytes + in_pages(source.size()));
  std::memcpy(front.data(), &head, sizeof head);
  std::memcpy(front.data() + page_bytes, source.data(), source.size());
  Checksum sum;
  sum.add(front.data(), front.size());
  for (const auto& section : parts_->sections) sum.add(section.data, section.memory());
  head.checksum = sum.value();
  std::memcpy(front.data(), &head, sizeof head);
  Writer writer(path);
  bool is_written = writer.is_open() && writer.write(front.data(), front.size());
  for (const auto& section : parts_->sections)
    is_written = is_written && writer.write(section.data, section.memory());
  return is_written ? writer.finish(saving) : writer.failure();
}

namespace {

bool has_right_checksum(const Head& head, const std::byte* data, std::size_t size) {
  std::array<std::byte, page_bytes> first;
  std::memcpy(first.data(), data, page_bytes);
  std::memset(first.data() + offsetof(Head, checksum), 0, sizeof head.checksum);
  Checksum sum;
  sum.add(first.data(), page_bytes);
  sum.add(data + page_bytes, size - page_bytes);
  return sum.value() == head.checksum;
}

bool has_right_sizes(const Head& head, std::size_t size) {
  if (head.file_bytes != size || head.source_bytes > size) return false;
  auto expected = page_bytes + in_pages(head.source_bytes);
  for (auto bytes : head.sizes) {
    if (bytes > size || expected > size) return false;
    expected += in_pages(bytes);
  }
  return expected == size;
}

}  // namespace

Result<std::shared_ptr<const Segment>> Segment::load(const std::string& path, Loading loading) {
  auto region = Region::map(path);
  if (!region) return std::unexpected(region.error());
  auto bad = [&](std::string_view what) { return fail(Errc::invalid, "{} {}", path, what); };
  auto* data = (*region)->data();
  auto size = (*region)->size();
  Head head;
  if (size < page_bytes || size % page_bytes != 0) return bad("is not a segment");
  std::memcpy(&head, data, sizeof head);
  if (head.magic != magic) return bad("is not a segment of this version");
  if (!has_right_sizes(head, size)) return bad("is truncated or damaged");
  bool is_checked = loading == Loading::checked;
  if (is_checked) madvise(data, size, MADV_WILLNEED);
  if (is_checked && !has_right_checksum(head, data, size)) return bad("is damaged");
  auto parts = std::make_unique<Parts>();
  auto offset = page_bytes + in_pages(head.source_bytes);
  for (std::size_t i = 0; i < section_count; ++i) {
    if (head.sizes[i] > 0) parts->sections[i] = {*region, data + offset, head.sizes[i]};
    offset += in_pages(head.sizes[i]);
  }
  parts->blob_bytes = head.blob_bytes;
  parts->is_warm = head.is_warm != 0;
  std::string_view source(reinterpret_cast<const char*>(data) + page_bytes, head.source_bytes);
  if (!unpack(source, *parts) || (is_checked && !is_sound(*parts))) return bad("is damaged");
  return std::make_shared<const Segment>(std::move(parts));
}

}  // namespace warren::search
