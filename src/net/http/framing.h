#pragma once
// Finds where a body ends. It takes bytes and returns pieces of the body, and also writes chunks.
// Opens no socket.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace warren {

// How the end of a body is known.
struct BodyEnd {
  enum Kind { by_length, by_chunks, by_close } kind = by_length;
  std::uint64_t length = 0;  // by_length

  bool operator==(const BodyEnd&) const = default;
};
constexpr BodyEnd body_of(std::uint64_t length) { return {BodyEnd::by_length, length}; }
inline constexpr BodyEnd chunked{BodyEnd::by_chunks};
inline constexpr BodyEnd until_close{BodyEnd::by_close};

// Strict wherever two programs might read a body differently: a chunk size is at most 15
// hexadecimal digits and nothing else (no extensions, no spaces), and lines end with CR LF.
// Trailers are checked like headers and dropped.
class BodyParser {
 public:
  explicit BodyParser(BodyEnd end);

  struct Step {
    std::size_t used = 0;         // bytes to drop, the piece included
    std::string_view piece = {};  // of the body
  };
  // Consumes what precedes the next piece, and the piece. If the piece is empty, the body is
  // complete or more bytes are needed. Errc::protocol: the framing is invalid.
  Result<Step> take(std::string_view bytes);
  bool is_whole() const { return state_ == State::whole; }
  // Whether the body is complete if the connection ends here.
  bool may_end() const { return is_whole() || state_ == State::open; }

 private:
  enum class State { open, data, chunk_size, chunk_data, chunk_end, trailer, whole };
  Result<bool> take_line(std::string_view bytes, Step& step);

  State state_;
  std::uint64_t left_ = 0;  // in the body, or in the chunk
  std::size_t trailer_bytes_ = 0;
};

// Appends one chunk. Ignores an empty piece, because an empty chunk would end the body.
void write_chunk(std::string& out, std::string_view piece);
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

}  // namespace warren
