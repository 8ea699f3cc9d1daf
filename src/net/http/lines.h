#pragma once
// Bodies made of lines: writes answers line by line, as in NDJSON, and reads such bodies.
//
//   HttpLines lines(*request.exchange);               // set the answer's status and type before
//   co_await lines.send("{…}\n");                     // begins the answer
//   co_await lines.end();
#include <optional>
#include <string>

#include "net/http/exchange.h"
#include "net/http/message.h"

namespace warren {

// Whether the client asks for NDJSON.
bool wants_lines(const HttpRequest& request);

class HttpLines {
 public:
  explicit HttpLines(HttpExchange& exchange) : exchange_(exchange) {}

  // Sends one or several complete lines, and waits until the socket has taken them. Errors as for
  // BodyWriter::write.
  Async<> send(std::string lines);
  Async<> end();
  bool has_begun() const { return out_ != nullptr; }

 private:
  HttpExchange& exchange_;
  BodyWriter* out_ = nullptr;  // the exchange's
};

class LineReader {
 public:
  // Errc::overloaded: a line is longer than `most`.
  LineReader(BodyReader& from, std::size_t most) : from_(from), most_(most) {}

  // The next line, without its line end. Returns nullopt at the end of the body. Errc::protocol:
  // the body ends within a line. Other errors as for BodyReader::read.
  Async<std::optional<std::string>> next();

 private:
  BodyReader& from_;
  std::size_t most_;
  std::string rest_;
  std::size_t looked_at_ = 0;  // bytes of the rest already searched for a line end
};

}  // namespace warren
