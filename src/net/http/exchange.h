#pragma once
// What the work for a request can do besides filling in its answer: read the request's body as it
// arrives, send the answer's body as it is produced, or take over the connection.
//
//   awaitable<void> find(const HttpRequest& request, HttpAnswer& answer) {
//     answer.type = "application/x-ndjson";
//     auto& lines = request.exchange->begin();
//     while (auto line = co_await next_hit())
//       if (auto sent = co_await lines.write(*line); !sent) co_return;
//     std::ignore = co_await lines.end();
//   }
//
// When the client leaves, the work is cancelled. An answer that was begun but not ended is cut off,
// so that no client takes it for complete.
#include <optional>
#include <string>

#include "net/http/body.h"

namespace warren {

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  // The body of the request, if HttpTerms::stream_limit allows one. If the work does not read it
  // all, the connection is closed afterwards, unless the rest has already arrived.
  virtual BodyReader& in() = 0;
  // Takes status, type and headers from the answer. Without a length the body is sent in chunks,
  // or, to an HTTP/1.0 client, until the connection closes. Call it once.
  virtual BodyWriter& begin(std::optional<std::uint64_t> length = std::nullopt) = 0;
  // Sends 101 with the answer's headers. From then on in() and out() are the bytes of the
  // connection in both directions, until the work is done. Errc::invalid: the client did not ask
  // for an upgrade.
  virtual Async<> upgrade(std::string protocol) = 0;
  virtual BodyWriter& out() = 0;  // the writer from begin() or upgrade()
};

}  // namespace warren
