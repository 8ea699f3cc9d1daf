#pragma once
// Bodies that are too long, or come too late, to be held in memory: read and written in pieces, the
// same way by servers and clients, in requests and answers, and on connections that were upgraded.
//
//   for (;;) {                                        What one side does not take, the other side
//     auto piece = co_await from.read();              does not get rid of: nobody holds more than
//     if (!piece) co_return error;                    two pieces of 64 kB.
//     if (piece->empty()) co_return co_await to.end();
//     if (auto sent = co_await to.write(*piece); !sent) co_return sent;
//   }
#include <string>
#include <string_view>

#include "base/task.h"
#include "net/http/framing.h"

namespace warren {

inline constexpr std::size_t most_piece = 64u << 10;

// The bytes of one connection, whoever is at the other end. One coroutine reads, one writes.
class HttpWire {
 public:
  virtual ~HttpWire() = default;
  // What came and was not consumed yet; at most a piece.
  virtual std::string_view arrived() const = 0;
  virtual void consume(std::size_t bytes) = 0;
  // Waits for more to arrive. False: the peer has ended its side in good order. Errors: timeout (it
  // was silent for too long), unknown_outcome (the connection broke), cancelled.
  virtual Async<bool> more() = 0;
  // Returns when the socket took it all; the caller keeps the bytes alive. Errors as above.
  virtual Async<> send(std::string_view bytes) = 0;
};

class BodyReader {
 public:
  BodyReader(HttpWire& wire, BodyEnd end, std::uint64_t most);

  // The next piece, as soon as there is one; valid until the next call. Empty: that was all. Errors,
  // after each of which the body is lost: timeout, cancelled, protocol, overloaded (it is longer
  // than allowed), unknown_outcome (the connection ended before the body did).
  Async<std::string_view> read();
  // All that is still to come. Errc::overloaded: it is more than that.
  Async<std::string> rest(std::size_t most);

  bool is_whole() const { return parser_.is_whole(); }
  std::uint64_t bytes() const { return bytes_; }  // read so far
  // Forgets what has arrived already. Whether that was all.
  bool skip_arrived();

 private:
  Result<BodyParser::Step> next_step();

  HttpWire& wire_;
  BodyParser parser_;
  std::uint64_t most_;
  std::uint64_t bytes_ = 0;
  std::size_t used_ = 0;  // of what arrived, by the piece that was read last
  bool is_lost_ = false;
};

class BodyWriter {
 public:
  // Of `head` nothing is sent before the first piece, flush() or end().
  BodyWriter(HttpWire& wire, BodyEnd end, std::string head);
  // One that sends the head only, and swallows the rest.
  static BodyWriter without_body(HttpWire& wire, std::string head);

  // Returns when the socket took it. The caller keeps the bytes alive. Errors, after each of which
  // the body stays incomplete: timeout, cancelled, unknown_outcome, and invalid for more bytes than
  // were announced.
  Async<> write(std::string_view bytes);
  Async<> flush();
  // What is not ended was cut off, and the other side sees that. Errc::invalid: bytes are missing.
  Async<> end();
  bool is_whole() const { return state_ == State::ended; }
  bool ends_by_close() const { return end_.kind == BodyEnd::by_close; }

 private:
  enum class State { ready, busy, ended };  // busy for ever: a write failed
  Async<> send();

  HttpWire& wire_;
  BodyEnd end_;
  State state_ = State::ready;
  bool swallows_ = false;
  std::string out_;  // the head, or a piece in its frame
};

// All of it, one piece at a time, and the end.
Async<> copy_body(BodyReader& from, BodyWriter& to);

}  // namespace warren
