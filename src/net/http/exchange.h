#pragma once
// What the work for a request may do beyond filling in its answer: read the request's body as it
// comes, send the answer's as it is found, or take the connection over.
//
//   awaitable<void> find(const HttpRequest& request, HttpAnswer& answer) {
//     answer.type = "application/x-ndjson";
//     auto& lines = request.exchange->begin();
//     while (auto line = co_await next_hit())
//       if (auto sent = co_await lines.write(*line); !sent) co_return;
//     std::ignore = co_await lines.end();
//   }
//
// When the client leaves, the work is cancelled. An answer that was begun and not ended is cut off,
// so that nobody takes it for a whole one.
#include <optional>
#include <string>

#include "net/http/body.h"

namespace warren {

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  // The body of the request, if HttpTerms::stream_limit has one for it. What is not read of it costs
  // the connection, unless it has arrived already.
  virtual BodyReader& in() = 0;
  // Takes status, type and headers from the answer. Without a length the body is sent in chunks, and
  // to clients of HTTP/1.0 until the connection is closed. Once.
  virtual BodyWriter& begin(std::optional<std::uint64_t> length = std::nullopt) = 0;
  // Sends 101 with the answer's headers. From here on in() and out() are the bytes of the
  // connection, both ways, until the work is done. Errc::invalid: the client did not ask for it.
  virtual Async<> upgrade(std::string protocol) = 0;
  virtual BodyWriter& out() = 0;  // what begin() or upgrade() began
};

}  // namespace warren
