#pragma once
// A command as it goes over the wire, with the place of its key for routing.
//
//   Command("SET", key, value, "PX", 5000)
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace warren::redis {

inline constexpr int slot_count = 16384;

// The slot of a key: CRC16 of what stands in its first {…}, or of all of it.
int slot_of(std::string_view key);

class Command {
 public:
  // Strings are sent as they are, byte for byte; integers in decimal.
  template <class... Args>
  explicit Command(std::string_view name, const Args&... args) {
    begin(1 + sizeof...(args));
    append(name);
    (append(args), ...);
  }
  // For a number of arguments known at run time; words[0] is the name.
  explicit Command(std::span<const std::string> words);

  std::string_view bytes() const { return bytes_; }
  int size() const { return size_; }  // words, the name included
  // The i-th word, 0 being the name; empty when there is none.
  std::string_view word(int i) const;
  // The key that decides where the command goes in a cluster; no value for commands without keys.
  // For the commands whose key is not their first argument (EVAL, XREAD, OBJECT, …) it is found
  // by their syntax.
  bool has_key() const;
  std::string_view key() const;

 private:
  void begin(std::size_t words);
  void append(std::string_view word);
  template <std::integral T>
  void append(T number) {
    append_number(static_cast<std::int64_t>(number));
  }
  void append_number(std::int64_t number);

  std::string bytes_;
  int size_ = 0;
};

// For logs and errors: the name and, where there is one, the key; never values, which may be
// secret.
std::string describe(const Command& command);

}  // namespace warren::redis
