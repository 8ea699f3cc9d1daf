#pragma once
// Where a body ends: bytes in, pieces of the body out; and the other way round. Opens no socket.
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

// Strict where two programs may read differently: the size of a chunk is at most 15 hexadecimal
// digits and nothing else (no extensions, no spaces), and lines end with CR LF. Trailers are
// checked like headers and dropped.
class BodyParser {
 public:
  explicit BodyParser(BodyEnd end);

  struct Step {
    std::size_t used = 0;         // bytes that need not be shown again; the piece is among them
    std::string_view piece = {};  // of the body
  };
  // Takes what stands before the next piece, and the piece. When there is no piece, the body is
  // whole or more bytes are needed. Errc::protocol: this is no body.
  Result<Step> take(std::string_view bytes);
  bool is_whole() const { return state_ == State::whole; }
  // Whether the body is whole when the connection ends here.
  bool may_end() const { return is_whole() || state_ == State::open; }

 private:
  enum class State { open, data, chunk_size, chunk_data, chunk_end, trailer, whole };
  Result<bool> take_line(std::string_view bytes, Step& step);

  State state_;
  std::uint64_t left_ = 0;  // of the body, or of the chunk
  std::size_t trailer_bytes_ = 0;
};

// Appends one chunk. An empty piece would be the end, and is left out.
void write_chunk(std::string& out, std::string_view piece);
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

}  // namespace warren
