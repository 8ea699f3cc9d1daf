#include "redis/connection/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/redirect_error.hpp>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "redis/connection/tls_words.h"

namespace warren::redis {

namespace {

// A peer that vanishes without closing is detected after 15 s + 3 * 5 s if we are silent too, and
// after 15 s if it owes us acknowledgements.
void set_options(int socket) {
  struct Option {
    int level, name, value;
  };
  for (auto [level, name, value] :
       {Option{IPPROTO_TCP, TCP_NODELAY, 1}, Option{SOL_SOCKET, SO_KEEPALIVE, 1},
        Option{IPPROTO_TCP, TCP_KEEPIDLE, 15}, Option{IPPROTO_TCP, TCP_KEEPINTVL, 5},
        Option{IPPROTO_TCP, TCP_KEEPCNT, 3}, Option{IPPROTO_TCP, TCP_USER_TIMEOUT, 15'000}})
    ::setsockopt(socket, level, name, &value, sizeof value);
}

Error dial_error(const boost::system::error_code& error) {
  switch (error.value()) {
    case ECANCELED:
      return {Errc::cancelled, "the caller left"};
    case ECONNREFUSED:
      return {Errc::unavailable, "the connection was refused; nothing listens there"};
    case ENOENT:
      return {Errc::unavailable, "there is no such socket"};
    case EACCES:
    case EPERM:
      return {Errc::denied, "we are not allowed to connect"};
    case ENETUNREACH:
    case EHOSTUNREACH:
      return {Errc::unavailable, "there is no way to it from here"};
    default:
      return {Errc::unavailable, error.message()};
  }
}

// The error for a step that timed out, with the time it took.
Error no_answer(std::string_view step, Clock::time_point since) {
  auto time = std::chrono::round<std::chrono::milliseconds>(Clock::now() - since);
  return {Errc::timeout, fmt::format("no answer to {} within {} ms", step, time.count())};
}

// Combines all attempts into one line. Code and cause come from the first that failed for a reason
// other than time.
Error all_failed(const Address& address, const std::vector<std::pair<Endpoint, Error>>& attempts) {
  Error all{Errc::timeout, to_string(address)};
  auto separator = ": ";
  for (auto& [endpoint, error] : attempts) {
    if (all.code == Errc::timeout)
      std::tie(all.code, all.cause) = std::tie(error.code, error.cause);
    auto place = to_string(endpoint);
    all.what += separator;
    if (place != to_string(address)) all.what += place + ": ";
    all.what += error.what;
    separator = "; ";
  }
  return all;
}

}  // namespace

Async<std::unique_ptr<Transport>> Transport::connect(Address address, const TlsContext* tls,
                                                     Clock::time_point deadline) {
  auto began = Clock::now();
  if (tls && address.is_unix())
    co_return fail(Errc::invalid, "{}: a unix socket takes no TLS", to_string(address));
  auto endpoints = co_await with_deadline(deadline, resolve(address));
  if (!endpoints) {
    auto error = endpoints.error();
    if (error.code == Errc::timeout) error = no_answer("the lookup of the name", began);
    co_return std::unexpected(within(to_string(address), std::move(error)));
  }
  std::vector<std::pair<Endpoint, Error>> attempts;
  for (std::size_t i = 0; i < endpoints->size(); ++i) {
    auto now = Clock::now();
    auto share = now + (deadline - now) / std::int64_t(endpoints->size() - i);
    auto transport = co_await connect_to((*endpoints)[i], address, tls, share);
    if (transport) co_return std::move(*transport);
    attempts.emplace_back((*endpoints)[i], transport.error());
    if (transport.error().code == Errc::cancelled) break;
  }
  co_return std::unexpected(all_failed(address, attempts));
}

Async<std::unique_ptr<Transport>> Transport::connect_to(Endpoint endpoint, const Address& address,
                                                        const TlsContext* tls,
                                                        Clock::time_point deadline) {
  auto began = Clock::now();
  std::unique_ptr<Transport> transport(new Transport(co_await asio::this_coro::executor));
  auto dialled = co_await with_deadline(deadline, transport->dial(endpoint));
  if (!dialled && dialled.error().code == Errc::timeout)
    co_return std::unexpected(no_answer("the connection attempt", began));
  if (!dialled) co_return std::unexpected(dialled.error());
  if (!tls) co_return transport;

  began = Clock::now();
  transport->tls_ = std::make_unique<TlsStream>(*tls, address, transport->fd_);
  auto patience = std::min<Clock::duration>(1s, (deadline - began) / 2);
  if (!tls->is_for_redis()) patience = deadline - began;
  auto shaken = co_await with_deadline(began + patience, transport->shake_hands());
  if (!shaken && shaken.error().code == Errc::timeout && tls->is_for_redis())
    shaken = co_await with_deadline(deadline, transport->shake_hands_or_doubt(endpoint));
  if (shaken) co_return transport;
  if (shaken.error().code == Errc::timeout)
    co_return std::unexpected(no_answer("the TLS handshake", began));
  co_return std::unexpected(shaken.error());
}

// A plain Redis does not answer a TLS greeting: it takes it for an incomplete command. So after a
// long silence, probe it without TLS while the handshake continues.
Async<> Transport::shake_hands_or_doubt(Endpoint endpoint) {
  using namespace asio::experimental::awaitable_operators;
  if (!tls_->is_silent()) co_return co_await shake_hands();
  auto first = co_await (shake_hands() || find_plain_redis(endpoint));
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  co_return fail(Errc::protocol, "this is not a TLS server but a plain Redis");
}

awaitable<void> Transport::find_plain_redis(Endpoint endpoint) {
  Transport transport(co_await asio::this_coro::executor);
  auto dialled = co_await transport.dial(endpoint);
  char first = 0;
  if (dialled) transport.write("PING\r\n");
  while (dialled && transport.read({&first, 1}).status == Done::would_block)
    co_await transport.wait_readable();
  if (first != '+' && first != '-') co_await sleep_until(Clock::time_point::max());
}

Async<> Transport::dial(Endpoint endpoint) {
  // Asio would open the socket without CLOEXEC, and every child process would inherit it.
  int family = endpoint.protocol().family();
  fd_ = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) co_return fail(Errc::unavailable, "no socket: {}", std::strerror(errno));
  boost::system::error_code error;
  socket_.assign(endpoint.protocol(), fd_, error);
  if (error) {
    ::close(std::exchange(fd_, -1));
    co_return fail(Errc::unavailable, "no socket: {}", error.message());
  }
  if (family != AF_UNIX) set_options(fd_);
  co_await socket_.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return std::unexpected(dial_error(error));
  // Connecting made Asio watch for "writable" permanently, so every wait for an answer would wake
  // for that. Releasing the socket and assigning it again makes Asio watch only for reading.
  socket_.release(error);
  if (!error) socket_.assign(endpoint.protocol(), fd_, error);
  if (error) {
    if (!socket_.is_open()) ::close(std::exchange(fd_, -1));
    co_return fail(Errc::unavailable, "no socket: {}", error.message());
  }

  auto peer = socket_.remote_endpoint(error);
  // Asio reports a connection to a unix socket whose accept queue is full as established.
  if (error) co_return fail(Errc::unavailable, "too many connections wait to be accepted");
  auto self = socket_.local_endpoint(error);
  // If nothing listens on a port in the ephemeral range, TCP may connect the port to itself.
  if (family != AF_UNIX && self == peer)
    co_return std::unexpected(dial_error(asio::error::connection_refused));
  local_name_ = to_string(self);
  co_return ok;
}

Async<> Transport::shake_hands() {
  for (;;) {
    switch (tls_->shake_hands()) {
      case TlsStream::Step::done:
        may_hold_bytes_ = true;
        co_return ok;
      case TlsStream::Step::failed:
        co_return std::unexpected(tls_->why());
      case TlsStream::Step::wants_read:
        co_await wait(Socket::wait_read);
        break;
      case TlsStream::Step::wants_write:
        co_await wait(Socket::wait_write);
        break;
    }
  }
}

Transport::~Transport() { close(); }

Transport::Done Transport::read(std::span<char> into) {
  ensure(!into.empty(), "a read has room");
  if (fd_ < 0) return {Done::closed};
  if (tls_) return read_tls(into);
  for (;;) {
    auto got = ::recv(fd_, into.data(), into.size(), 0);
    if (got >= 0 || errno != EINTR) return take(got, got < 0 ? errno : 0);
  }
}

awaitable<Transport::Done> Transport::receive(std::span<char> into) {
  ensure(!into.empty(), "a read has room");
  if (fd_ < 0) co_return Done{Done::closed};
  if (tls_) {
    co_await wait_readable();
    co_return read(into);
  }
  // A separate wait would re-arm epoll each time. async_receive registers once.
  boost::system::error_code error;
  auto got = co_await socket_.async_receive(asio::buffer(into.data(), into.size()),
                                            asio::redirect_error(asio::use_awaitable, error));
  if (fd_ < 0) co_return Done{Done::closed};
  if (error == asio::error::operation_aborted) co_return Done{Done::would_block};
  if (error == asio::error::eof) co_return take(0, 0);
  co_return take(error ? -1 : ssize_t(got), error.value());
}

// Interprets the result of recv.
Transport::Done Transport::take(ssize_t got, int error) {
  if (got > 0) {
    is_heard_ = true;
    return {Done::some, std::size_t(got)};
  }
  if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return {Done::would_block};
  ended_well_ = got == 0;
  auto reason = lost_connection(error);
  if (!is_heard_ && (error == 0 || error == ECONNRESET))
    reason.what += " without a word; it may want TLS";
  // The reason from an earlier write says more: after it, a read only finds the end.
  return lost(why_.what.empty() ? reason : why_);
}

Transport::Done Transport::write(std::string_view bytes) {
  ensure(!bytes.empty(), "a write has bytes");
  if (fd_ < 0) return {Done::closed};
  if (tls_) return write_tls(bytes);
  for (;;) {
    auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) return {Done::some, std::size_t(sent)};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {Done::would_block};
    if (errno == EINTR) continue;
    if (why_.what.empty()) why_ = lost_connection(errno);
    return {Done::closed};
  }
}

Transport::Done Transport::read_tls(std::span<char> into) {
  std::size_t bytes = 0;
  auto step = tls_->read(into, bytes);
  may_hold_bytes_ = step == TlsStream::Step::done;
  // The data that a write was waiting for may have just been read.
  write_wants_read_ = false;
  if (bytes > 0) return {Done::some, bytes};
  ended_well_ = tls_->heard_goodbye();
  if (step == TlsStream::Step::failed) return lost(tls_->why());
  return {Done::would_block};
}

Transport::Done Transport::write_tls(std::string_view bytes) {
  std::size_t taken = 0;
  auto step = tls_->write(bytes, taken);
  write_wants_read_ = step == TlsStream::Step::wants_read;
  // While waiting for the server, the write may have read ahead.
  if (write_wants_read_) may_hold_bytes_ = true;
  if (taken > 0) return {Done::some, taken};
  if (step != TlsStream::Step::failed) return {Done::would_block};
  why_ = tls_->why();
  return {Done::closed};
}

awaitable<void> Transport::wait_readable() {
  if (!may_hold_bytes_) co_await wait(Socket::wait_read);
}

awaitable<void> Transport::wait_writable() {
  co_await wait(write_wants_read_ ? Socket::wait_read : Socket::wait_write);
}

awaitable<void> Transport::wait(Socket::wait_type what) {
  boost::system::error_code ignored;
  if (fd_ < 0) co_return;
  co_await socket_.async_wait(what, asio::redirect_error(asio::use_awaitable, ignored));
}

Transport::Done Transport::lost(Error why) {
  why_ = std::move(why);
  close();
  return {Done::closed};
}

void Transport::close() {
  if (why_.what.empty()) why_.what = "the connection was closed at this end";
  may_hold_bytes_ = false;
  tls_.reset();
  fd_ = -1;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace warren::redis
