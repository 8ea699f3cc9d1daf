#pragma once
// Memory allocated from the system in whole pages, so that our count matches what is really used.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace warren::search {

inline constexpr std::size_t page_bytes = 4096;
inline std::size_t in_pages(std::size_t bytes) {
  return (bytes + page_bytes - 1) & ~(page_bytes - 1);
}

class Region {
 public:
  // Zeroed. Errc::overloaded: the system has no memory left.
  static Result<std::shared_ptr<Region>> make(std::size_t bytes);
  // Maps a whole file for reading. Errors: not_found; invalid if it is empty.
  static Result<std::shared_ptr<Region>> map(const std::string& path);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // Copies the contents into huge pages, while readers continue. Does nothing if the system has no
  // huge pages.
  void use_huge_pages();

  // Allocates the pages of a part that is about to be written, all at once. This is faster than one
  // by one.
  void touch(std::size_t begin, std::size_t bytes);

  std::byte* data() { return data_; }
  std::size_t size() const { return size_; }

 private:
  Region(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_;
  std::size_t size_;
};

// A part of a region. Equal owners: every segment that uses the bytes (one with an index shares the
// text of the one without), and, after a load, every section of the file.
struct Section {
  std::shared_ptr<Region> region;
  const std::byte* data = nullptr;
  std::size_t size = 0;
  std::optional<std::uint64_t> noted = {};  // the checksum of its pages: see verify.h

  static Section whole(std::shared_ptr<Region> region, std::size_t size);
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data), size / sizeof(T)};
  }
  const char* chars() const { return reinterpret_cast<const char*>(data); }
  std::size_t memory() const { return in_pages(size); }
};

}  // namespace warren::search
