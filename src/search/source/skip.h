#pragma once
// Why files are left out, and how to tell that they have changed.
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace warren::search {

inline constexpr std::size_t binary_probe = 8192;

inline bool is_binary(std::string_view text) {
  return text.substr(0, binary_probe).find('\0') != std::string_view::npos;
}

// "3.2 MB, more than 2 MB"
std::string too_large(std::size_t bytes, std::size_t limit);
std::string reason_of(int error);  // "cannot be read: …"
// Reads an open file's text and stat data, or returns why the file is left out.
std::optional<std::string> read_text(int file, std::size_t most, std::string& text,
                                     struct stat& facts);

// Not secret and not signed: only distinguishes states of a directory.
class Fingerprint {
 public:
  void add(std::string_view text);
  void add(std::initializer_list<std::uint64_t> numbers);
  std::string text() const { return fmt::format("{:016x}{:016x}", a_, b_); }
  std::array<std::uint64_t, 2> value() const { return {a_, b_}; }

 private:
  void mix(std::uint64_t value);

  std::uint64_t a_ = 0x9e3779b97f4a7c15, b_ = 0xc2b2ae3d27d4eb4f;
};

}  // namespace warren::search
