#pragma once
// Bytes to and from one server, over TCP, TLS or a unix socket. Never blocks.
//
// Reading and writing are plain calls that return `would_block`; only the socket waits. So one read
// serves hundreds of replies, and the TLS layer needs no event loop of its own.
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
  // Resolves, connects and does the handshakes. Tries the addresses of a name in turn, each for its
  // share of the time. Sets TCP_NODELAY, keepalive and TCP_USER_TIMEOUT. Every error starts with
  // the address: unavailable, timeout, denied (the certificate: expired, wrong name, unknown
  // issuer, in words; or the unix socket's permissions), protocol (not a TLS server).
  static Async<std::unique_ptr<Transport>> connect(Address address, const TlsContext* tls,
                                                   Clock::time_point deadline);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  struct Done {
    enum Status { some, would_block, closed } status;  // closed: see why()
    std::size_t bytes = 0;                             // with `some`: at least 1
  };
  // If fewer bytes are read than fit, no more are available now.
  Done read(std::span<char> into);
  // Waits for bytes and reads them, with fewer system calls than wait_readable() and read().
  // Returns would_block after a spurious wakeup or when cancelled. Bytes that arrive at the moment
  // of the cancellation are lost.
  awaitable<Done> receive(std::span<char> into);
  // The next write must start with the bytes that were not taken. If it returns closed, keep
  // reading: the server's last message is often the reason.
  Done write(std::string_view bytes);
  // Why the connection is closed. Errors: unavailable, denied, protocol.
  const Error& why() const { return why_; }

  // After a read returned closed: whether the peer closed properly, so that nothing is missing.
  bool ended_well() const { return ended_well_; }

  // Waits until read() (or write()) may make progress, and sometimes returns too early. Also
  // returns, without throwing, when the socket is closed or the caller is cancelled.
  awaitable<void> wait_readable();
  awaitable<void> wait_writable();

  // Ends both directions at once and wakes all waiters. Later reads and writes return closed.
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
  // Returns only if it finds one.
  static awaitable<void> find_plain_redis(Endpoint endpoint);
  awaitable<void> wait(Socket::wait_type what);
  Done take(ssize_t got, int error);
  Done read_tls(std::span<char> into);
  Done write_tls(std::string_view bytes);
  Done lost(Error why);

  Socket socket_;
  int fd_ = -1;  // the socket's descriptor while connected
  std::unique_ptr<TlsStream> tls_;
  bool may_hold_bytes_ = false;    // TLS reads ahead, and the socket does not know those bytes
  bool write_wants_read_ = false;  // TLS may have to read from the server before it can write
  bool is_heard_ = false;
  bool ended_well_ = false;
  Error why_{Errc::unavailable, ""};
  std::string local_name_;
};

}  // namespace warren::redis
