#pragma once
// Bodies that are too long, or arrive too late, to be held in memory. They are read and written in
// pieces, in the same way by servers and clients, in requests and answers, and on upgraded
// connections.
//
//   for (;;) {                                        If one side stops taking data, the other
//     auto piece = co_await from.read();              side cannot send more: neither holds more
//     if (!piece) co_return error;                    than two pieces of 64 kB.
//     if (piece->empty()) co_return co_await to.end();
//     if (auto sent = co_await to.write(*piece); !sent) co_return sent;
//   }
#include <string>
#include <string_view>

#include "base/task.h"
#include "net/http/framing.h"

namespace warren {

inline constexpr std::size_t most_piece = 64u << 10;

// The bytes of one connection, of a server or a client. One coroutine reads, one writes.
class HttpWire {
 public:
  virtual ~HttpWire() = default;
  // What has arrived and is not consumed yet; at most one piece.
  virtual std::string_view arrived() const = 0;
  virtual void consume(std::size_t bytes) = 0;
  // Waits for more to arrive. Returns false if the peer has closed its side properly. Errors:
  // timeout (silent for too long), unknown_outcome (the connection broke), cancelled.
  virtual Async<bool> more() = 0;
  // Returns when the socket has taken everything. The caller keeps the bytes alive. Errors as
  // above.
  virtual Async<> send(std::string_view bytes) = 0;
};

class BodyReader {
 public:
  BodyReader(HttpWire& wire, BodyEnd end, std::uint64_t most);

  // Returns the next piece as soon as there is one; it is valid until the next call. Returns "" at
  // the end. After any error the body is lost: timeout, cancelled, protocol, overloaded (longer
  // than allowed), unknown_outcome (the connection ended before the body did).
  Async<std::string_view> read();
  // Returns all that is left of the body. Errc::overloaded: more than `most`.
  Async<std::string> rest(std::size_t most);

  bool is_whole() const { return parser_.is_whole(); }
  std::uint64_t bytes() const { return bytes_; }  // read so far
  // Discards what has already arrived. Returns whether that completed the body.
  bool skip_arrived();

 private:
  Result<BodyParser::Step> next_step();

  HttpWire& wire_;
  BodyParser parser_;
  std::uint64_t most_;
  std::uint64_t bytes_ = 0;
  std::size_t used_ = 0;  // of what arrived, by the last piece
  bool is_lost_ = false;
};

class BodyWriter {
 public:
  // `head` is sent with the first piece, flush() or end(), not before.
  BodyWriter(HttpWire& wire, BodyEnd end, std::string head);
  // A writer that sends only the head and drops the rest.
  static BodyWriter without_body(HttpWire& wire, std::string head);

  // Returns when the socket has taken the bytes. The caller keeps them alive. After any error the
  // body stays incomplete: timeout, cancelled, unknown_outcome, or invalid for more bytes than
  // announced.
  Async<> write(std::string_view bytes);
  Async<> flush();
  // Without end() the body is cut off, and the other side can tell. Errc::invalid: bytes are
  // missing.
  Async<> end();
  bool is_whole() const { return state_ == State::ended; }
  bool ends_by_close() const { return end_.kind == BodyEnd::by_close; }

 private:
  enum class State { ready, busy, ended };  // busy forever: a write failed
  Async<> send();

  HttpWire& wire_;
  BodyEnd end_;
  State state_ = State::ready;
  bool swallows_ = false;
  std::string out_;  // the head, or a framed piece
};

// Copies the whole body, one piece at a time, then ends it.
Async<> copy_body(BodyReader& from, BodyWriter& to);

}  // namespace warren
