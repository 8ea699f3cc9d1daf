#pragma once
// A command as it goes over the wire, with the place of its key for routing.
//
//   Command("SET", key, value, "PX", 5000)
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace warren::redis {

inline constexpr int slot_count = 16384;

// The slot of a key: CRC16 of what stands in its first {…}, or of all of it.
int slot_of(std::string_view key);

// Not bool and not char: whether those are numbers or letters is for the caller to say.
template <class T>
concept DecimalArgument = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>;

class Command {
 public:
  // Strings are sent as they are, byte for byte; integers in decimal.
  template <class... Args>
  explicit Command(std::string_view name, const Args&... args) {
    write({Word(name), Word(args)...});
  }
  // For a number of arguments known at run time; words[0] is the name.
  explicit Command(std::span<const std::string> words);

  std::string_view bytes() const { return bytes_; }
  int size() const { return size_; }  // words, the name included
  // The i-th word, 0 being the name; empty when there is none.
  std::string_view word(int i) const;
  // The key that decides where the command goes in a cluster: the first one, or the channel of
  // SPUBLISH and SSUBSCRIBE. Some commands have none (PING, PUBLISH, EVAL with 0 keys); for those
  // whose key is not their first argument (EVAL, XREAD, OBJECT, …) it is found by their syntax.
  // An unknown command is taken to have its key first.
  bool has_key() const { return key_index() > 0; }
  std::string_view key() const { return has_key() ? word(key_index()) : std::string_view(); }

 private:
  // One argument and, if it is a number, its digits. Points into itself, so it stays where it is.
  struct Word {
    explicit Word(std::string_view string) : text(string) {}
    template <DecimalArgument T>
    explicit Word(T number)
        : text(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr) {}
    Word(const Word&) = delete;

    char digits[20];  // not initialised: most words are strings
    std::string_view text;
  };

  void write(std::initializer_list<Word> words);
  template <class Words>
  void write_all(const Words& words);
  int key_index() const;  // 0 when there is none

  std::string bytes_;
  int size_ = 0;
};

// For logs and errors: the name and, where there is one, the key; never values, which may be
// secret.
std::string describe(const Command& command);

}  // namespace warren::redis
