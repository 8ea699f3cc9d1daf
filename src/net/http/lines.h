#pragma once
// Bodies of lines: answers that are sent a line at a time, as NDJSON is, and bodies read so.
//
//   HttpLines lines(*request.exchange);               // the answer has its status and type by then
//   co_await lines.send("{…}\n");                     // begins it
//   co_await lines.end();
#include <optional>
#include <string>

#include "net/http/exchange.h"
#include "net/http/message.h"

namespace warren {

// The client would like its answer as NDJSON.
bool wants_lines(const HttpRequest& request);

class HttpLines {
 public:
  explicit HttpLines(HttpExchange& exchange) : exchange_(exchange) {}

  // Whole lines, one or several. Waits until the socket took them; then the client has them. Errors
  // as those of BodyWriter::write.
  Async<> send(std::string lines);
  Async<> end();
  bool has_begun() const { return out_ != nullptr; }

 private:
  HttpExchange& exchange_;
  BodyWriter* out_ = nullptr;  // of the exchange
};

class LineReader {
 public:
  // Errc::overloaded: a line is longer than `most`.
  LineReader(BodyReader& from, std::size_t most) : from_(from), most_(most) {}

  // The next line, without its end; none: that was all. Errc::protocol: the body ends within a line.
  // Other errors are those of BodyReader::read.
  Async<std::optional<std::string>> next();

 private:
  BodyReader& from_;
  std::size_t most_;
  std::string rest_;
  std::size_t looked_at_ = 0;  // of the rest, without finding an end
};

}  // namespace warren
