#pragma once
// Bytes to and from one server, over TCP, TLS or a unix socket; never blocks.
//
// Reading and writing are plain calls that say `would_block`; waiting is done by the socket, so
// that one read serves hundreds of replies and the TLS layer needs no second event loop.
#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>
#include <span>

#include "base/task.h"
#include "redis/settings.h"

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

namespace warren::redis {

// Certificates and keys, loaded once per client: Errc::invalid names the file and what is wrong.
class TlsContext {
 public:
  static Result<TlsContext> load(const TlsSettings& settings);

 private:
  friend class Transport;
  std::shared_ptr<SSL_CTX> context_;  // shared with the connections made from it
  TlsSettings settings_;
};

class Transport {
 public:
  // Resolves, connects and shakes hands. Tries the addresses of a name one after the other.
  // TCP_NODELAY, keepalive and TCP_USER_TIMEOUT are set. Errors: unavailable, timeout, denied (the
  // certificate: expired, wrong name, unknown issuer, in words), protocol (not a TLS server).
  static Async<std::unique_ptr<Transport>> connect(Address address, const TlsContext* tls,
                                                   Clock::time_point deadline);
  ~Transport();

  struct Done {
    enum Status { some, would_block, closed } status;
    std::size_t bytes = 0;  // some: at least 1
    std::string why{};      // closed
  };
  Done read(std::span<char> into);
  Done write(std::string_view bytes);

  // Until read() (or write()) may do something; also returns when the socket is closed.
  awaitable<void> wait_readable();
  awaitable<void> wait_writable();

  // Ends both directions at once; a later read() or write() says closed.
  void close();
  std::string local_name() const;  // for logs: 127.0.0.1:40312

 private:
  Transport(asio::generic::stream_protocol::socket socket);
  asio::generic::stream_protocol::socket socket_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
};

}  // namespace warren::redis
