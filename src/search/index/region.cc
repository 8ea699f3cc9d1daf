#include "search/index/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace warren::search {

namespace {

constexpr std::size_t huge_page = 2u << 20;

// The system uses huge pages only for addresses that are a multiple of their size.
std::byte* aligned_map(std::size_t size) {
  void* got =
      mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(got);
  std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) % huge_page;
  if (before > 0) munmap(begin, before);
  if (before < huge_page) munmap(begin + before + size, huge_page - before);
  return begin + before;
}

}  // namespace

Result<std::shared_ptr<Region>> Region::make(std::size_t bytes) {
  std::size_t size = in_pages(bytes);
  std::byte* data = nullptr;
  if (size >= 2 * huge_page) {
    data = aligned_map(size);
  } else if (size > 0) {
    void* got = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data = got == MAP_FAILED ? nullptr : static_cast<std::byte*>(got);
  }
  if (size > 0 && data == nullptr)
    return fail(Errc::overloaded, "the system has no {} bytes of memory", size);
  return std::shared_ptr<Region>(new Region(data, size));
}

Result<std::shared_ptr<Region>> Region::map(const std::string& path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail(Errc::not_found, "{}: {}", path, std::strerror(errno));
  struct stat facts{};
  void* got = MAP_FAILED;
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0)
    got = mmap(nullptr, static_cast<std::size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (got == MAP_FAILED) return fail(Errc::invalid, "{} is empty or cannot be mapped", path);
  return std::shared_ptr<Region>(
      new Region(static_cast<std::byte*>(got), static_cast<std::size_t>(facts.st_size)));
}

void Region::use_huge_pages() {
  constexpr int collapse = 25;  // MADV_COLLAPSE, newer than our headers
  if (size_ < huge_page) return;
  madvise(data_, size_, MADV_HUGEPAGE);
  madvise(data_, size_ / huge_page * huge_page, collapse);
}

void Region::touch(std::size_t begin, std::size_t bytes) {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
  begin = std::min(begin & ~(page_bytes - 1), size_);
  // On systems without it, pages are allocated when they are first written.
  madvise(data_ + begin, std::min(in_pages(bytes), size_ - begin), populate_write);
}

Region::~Region() {
  if (data_ != nullptr) munmap(data_, size_);
}

Section Section::whole(std::shared_ptr<Region> region, std::size_t size) {
  ensure(size <= region->size(), "a section lies in its region");
  auto* data = region->data();
  return {.region = std::move(region), .data = data, .size = size};
}

}  // namespace warren::search
