#pragma once
// A command in its wire encoding, with the position of its key for routing.
//
//   Command("SET", key, value, "PX", 5000)
#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace warren::redis {

inline constexpr int slot_count = 16384;

// The slot of a key: CRC16 of the contents of its first {…}, or of the whole key.
int slot_of(std::string_view key);

// Excludes bool and char: the caller decides whether those are numbers or letters.
template <class T>
concept DecimalArgument = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>;

class Command {
 public:
  // Strings are sent unchanged, byte for byte; integers in decimal.
  template <class... Args>
  explicit Command(std::string_view name, const Args&... args) {
    write(Word(name), Word(args)...);
  }
  // For a number of arguments known only at run time. words[0] is the name.
  explicit Command(std::span<const std::string> words);
  // MULTI, the commands, EXEC: sent as one, answered by two more replies than there are commands.
  static Command transaction(std::span<const Command> commands);

  std::string_view bytes() const { return bytes_; }
  // How many replies the server gives. The last one is the result.
  std::uint32_t answers() const { return answers_; }
  int size() const { return size_; }  // words, the name included
  // The i-th word; word 0 is the name. Returns "" if there is no such word.
  std::string_view word(int i) const;
  // The key that decides where the command goes in a cluster: the first one, or the channel of
  // SPUBLISH and SSUBSCRIBE. Some commands have no key (PING, PUBLISH, EVAL with 0 keys). If the
  // key is not the first argument (EVAL, XREAD, OBJECT, …), it is found by the command's syntax.
  // For an unknown command the first argument counts as the key.
  bool has_key() const;
  std::string_view key() const;  // empty if there is none
  // The command changes the state of its connection, or blocks it (SUBSCRIBE, SELECT, a lone MULTI,
  // BLPOP). On a shared connection that would affect every caller.
  bool needs_own_connection() const;

 private:
  // "$5\r\n" and the like.
  struct Head {
    char type;
    std::size_t number;

    std::size_t size() const {
      std::size_t size = number < 10 ? 4 : 5;
      for (std::size_t rest = number; rest >= 100; rest /= 10) ++size;
      return size;
    }
    char* write(char* at) const {
      *at++ = type;
      if (number < 100) {  // nearly always
        if (number >= 10) *at++ = static_cast<char>('0' + number / 10);
        *at++ = static_cast<char>('0' + number % 10);
      } else {
        at = std::to_chars(at, at + 20, number).ptr;
      }
      *at++ = '\r';
      *at++ = '\n';
      return at;
    }
  };

  // One argument. For a number, `text` points to the digits stored here.
  class Word {
   public:
    explicit Word(std::string_view string) : text_(string) {}
    template <DecimalArgument T>
    explicit Word(T number)
        : text_(digits_, std::to_chars(digits_, digits_ + sizeof(digits_), number).ptr) {}
    Word(const Word&) = delete;

    std::size_t size() const { return Head{'$', text_.size()}.size() + text_.size() + 2; }
    [[gnu::always_inline]] char* write(char* at) const {
      at = Head{'$', text_.size()}.write(at);
      at = std::copy(text_.begin(), text_.end(), at);
      *at++ = '\r';
      *at++ = '\n';
      return at;
    }

   private:
    char digits_[20];  // not initialised: most words are strings
    std::string_view text_;
  };

  // Computes the size first, so that there is one allocation of exactly that size. Inlined, so that
  // the compiler can precompute the constant parts.
  template <class... Words>
  void write(const Words&... words) {
    size_ = sizeof...(words);
    Head head{'*', sizeof...(words)};
    std::size_t bytes = head.size() + (words.size() + ...);
    bytes_.resize_and_overwrite(bytes, [&](char* at, std::size_t) {  // g++ 12 passes the capacity
      at = head.write(at);
      ((at = words.write(at)), ...);
      return bytes;
    });
  }

  std::string bytes_;
  int size_ = 0;
  std::uint32_t answers_ = 1;
};

// For logs and errors: the name and the key, if any. Never values, which may be secret.
std::string describe(const Command& command);

}  // namespace warren::redis
