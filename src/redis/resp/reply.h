#pragma once
// A reply from Redis, owned by its receiver.
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warren::redis {

struct Reply {
  enum class Kind : std::uint8_t {
    null,
    string,
    status,  // +OK
    error,   // -ERR …; inside a batch, a transaction or an array. Alone it becomes an Error
    integer,
    real,
    boolean,
    big_number,  // its digits are in text
    verbatim,    // text without its three-letter format
    array,
    set,
    map,  // items: key, value, key, value
    push,
  };

  Kind kind = Kind::null;
  std::int64_t number = 0;  // integer; boolean as 0 or 1; the bits of a real
  std::string text;
  std::vector<Reply> items;

  bool is_null() const { return kind == Kind::null; }
  bool is_error() const { return kind == Kind::error; }
  double real() const { return std::bit_cast<double>(number); }
  // The value that follows `key` in a map, or in an array of alternating keys and values (which
  // RESP2 servers and scripts return). Returns nullptr if the key is missing.
  const Reply* find(std::string_view key) const;

  bool operator==(const Reply&) const = default;  // NaN equals NaN: compares the bits
};

// One line for logs and tests, similar to redis-cli's output: (integer) 1, "a\r\nb", [1, nil],
// {"a": 1}.
std::string to_string(const Reply& reply);

// Makes arbitrary bytes safe for a line of text: quoted, with everything but printable ASCII
// escaped.
std::string quoted(std::string_view bytes);

}  // namespace warren::redis
