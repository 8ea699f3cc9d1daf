// Saves a segment to a file: see format.h.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "search/store/format.h"

namespace warren::search {

namespace {

// Writes a file that has no name until it is complete, so that a process that ends before then
// leaves nothing. If the file system does not support that, the file has a temporary name
// meanwhile.
class Writer {
 public:
  explicit Writer(const std::string& path) : path_(path), temporary_(path + ".XXXXXX") {
    auto slash = path.rfind('/');
    auto folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    // Accessible only to its owner, because the texts may be confidential.
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
  // link() does not replace a file, so the file first gets a temporary name, then is renamed.
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
  auto front = front_of(*parts_);
  Writer writer(path);
  bool is_written = writer.is_open() && writer.write(front.data(), front.size());
  // A region ends on a page boundary, so sections can be written in whole pages.
  for (const auto& section : parts_->sections)
    is_written = is_written && writer.write(section.data, section.memory());
  return is_written ? writer.finish(saving) : writer.failure();
}

Result<std::shared_ptr<const Segment>> Segment::load(const std::string& path, Loading loading) {
  auto region = Region::map(path);
  if (!region) return std::unexpected(region.error());
  auto bad = [&](std::string_view what) { return fail(Errc::invalid, "{} {}", path, what); };
  auto* data = (*region)->data();
  auto size = (*region)->size();
  auto head = read_head({data, size});
  if (!head) return bad(head.error().what);
  if (head->file_bytes != size) return bad("is truncated or damaged");
  bool is_checked = loading == Loading::checked;
  if (is_checked) madvise(data, size, MADV_WILLNEED);
  auto parts = std::make_unique<Parts>();
  std::span<const std::byte> source(data + page_bytes, in_pages(head->source_bytes));
  if (checksum_of(source) != head->source_checksum) return bad("is damaged in its source");
  auto read = read_source(*head, source, *parts);
  if (!read) return bad(read.error().what);
  auto offset = page_bytes + source.size();
  for (std::size_t i = 0; i < section_count; ++i) {
    auto& section = parts->sections[i];
    if (head->sizes[i] > 0) section = {*region, data + offset, head->sizes[i], head->checksums[i]};
    offset += section.memory();
    if (is_checked && checksum_of(section) != head->checksums[i])
      return bad(fmt::format("is damaged in its {}", search::name(static_cast<SectionKind>(i))));
  }
  if (is_checked && !is_sound(*parts)) return bad("is damaged");
  return std::make_shared<const Segment>(std::move(parts));
}

}  // namespace warren::search
