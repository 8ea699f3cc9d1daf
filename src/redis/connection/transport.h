#pragma once
// Bytes to and from one server, over TCP, TLS or a unix socket; never blocks.
//
// Reading and writing are plain calls that say `would_block`; waiting is done by the socket, so
// that one read serves hundreds of replies and the TLS layer needs no second event loop.
#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>
#include <span>

#include "base/task.h"
#include "redis/connection/resolve.h"
#include "redis/connection/tls.h"
#include "redis/settings.h"

namespace warren::redis {

class Transport {
 public:
  // Resolves, connects and shakes hands. Tries the addresses of a name one after the other, each
  // for its share of the time. TCP_NODELAY, keepalive and TCP_USER_TIMEOUT are set. Errors, each
  // beginning with the address: unavailable, timeout, denied (the certificate: expired, wrong name,
  // unknown issuer, in words; or the unix socket's permissions), protocol (not a TLS server).
  static Async<std::unique_ptr<Transport>> connect(Address address, const TlsContext* tls,
                                                   Clock::time_point deadline);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  struct Done {
    enum Status { some, would_block, closed } status;  // closed: see why()
    std::size_t bytes = 0;                             // some: at least 1
  };
  // Fewer bytes than fit mean that no more are there now.
  Done read(std::span<char> into);
  // Waits for bytes and reads them, with fewer system calls than wait_readable() and read(). Says
  // would_block when it was woken in vain or cancelled; bytes that came in the moment of the
  // cancellation are lost.
  awaitable<Done> receive(std::span<char> into);
  // What was not taken must be the beginning of the next write. When it says closed, go on reading:
  // what the server said last is often the reason.
  Done write(std::string_view bytes);
  // Why the connection is closed. Errors: unavailable, denied, protocol.
  const Error& why() const { return why_; }

  // After a read said closed: whether the peer ended in good order, so that nothing is missing.
  bool ended_well() const { return ended_well_; }

  // Until read() (or write()) may do something; at times too early. Also returns, without throwing,
  // when the socket is closed or the caller cancelled.
  awaitable<void> wait_readable();
  awaitable<void> wait_writable();

  // Ends both directions at once and wakes who waits; a later read() or write() says closed.
  void close();
  const std::string& local_name() const { return local_name_; }  // for logs: 127.0.0.1:40312

 private:
  using Socket = asio::generic::stream_protocol::socket;

  explicit Transport(const asio::any_io_executor& executor) : socket_(executor) {}
  static Async<std::unique_ptr<Transport>> connect_to(Endpoint endpoint, const Address& address,
                                                      const TlsContext* tls,
                                                      Clock::time_point deadline);
  Async<> dial(Endpoint endpoint);
  Async<> shake_hands();
  Async<> shake_hands_or_doubt(Endpoint endpoint);
  // Returns only when there is one.
  static awaitable<void> find_plain_redis(Endpoint endpoint);
  awaitable<void> wait(Socket::wait_type what);
  Done take(ssize_t got, int error);
  Done read_tls(std::span<char> into);
  Done write_tls(std::string_view bytes);
  Done lost(Error why);

  Socket socket_;
  int fd_ = -1;  // that of the socket while it is connected
  std::unique_ptr<TlsStream> tls_;
  bool may_hold_bytes_ = false;    // TLS reads ahead, and of that the socket knows nothing
  bool write_wants_read_ = false;  // TLS may have to hear the server out before it can write
  bool is_heard_ = false;
  bool ended_well_ = false;
  Error why_{Errc::unavailable, ""};
  std::string local_name_;
};

}  // namespace warren::redis
