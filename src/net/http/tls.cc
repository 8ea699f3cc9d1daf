#include "net/http/tls.h"

#include <boost/asio/post.hpp>

#include "net/http/connection.h"

namespace warren {

using asio::ip::tcp;
using boost::system::error_code;
using redis::TlsStream;

Result<TlsContext> tls_for_server(const PemPair& own) {
  redis::TlsSettings settings;
  settings.is_for_redis = false;
  settings.cert_pem = own.certificate;
  settings.key_pem = own.key;
  return TlsContext::serve(settings);
}

Result<TlsContext> tls_for_client(const std::string& ca, const PemPair& own) {
  redis::TlsSettings settings;
  settings.is_for_redis = false;
  settings.ca_pem = ca;
  settings.cert_pem = own.certificate;
  settings.key_pem = own.key;
  return TlsContext::load(settings);
}

void HttpConnection::shake_hands() {
  if (phase_ != Phase::receiving) enter(Phase::receiving);
  auto again = [self = shared_from_this()](error_code error) {
    if (!self->server_) return;
    if (error) return self->leave();
    self->shake_hands();
  };
  switch (tls_->stream.shake_hands()) {
    case TlsStream::Step::done:
      enter(Phase::idle);
      return receive();
    case TlsStream::Step::failed:
      return leave();
    case TlsStream::Step::wants_read:
      return socket_.async_wait(tcp::socket::wait_read, again);
    case TlsStream::Step::wants_write:
      return socket_.async_wait(tcp::socket::wait_write, again);
  }
}

void HttpConnection::start_receiving_tls() {
  auto look = [self = shared_from_this()](error_code = {}) {
    if (self->server_) self->receive_tls();
  };
  if (tls_->may_hold_bytes)
    asio::post(socket_.get_executor(), look);
  else
    socket_.async_wait(tcp::socket::wait_read, look);
}

void HttpConnection::receive_tls() {
  std::size_t count = 0;
  auto step = tls_->stream.read({in_.data() + end_, in_.size() - end_}, count);
  tls_->may_hold_bytes = step == TlsStream::Step::done;
  tls_->write_wants_read = false;
  if (count > 0) return on_received({}, count);
  if (step != TlsStream::Step::failed) return start_receiving_tls();
  error_code end = asio::error::connection_reset;
  if (tls_->stream.heard_goodbye()) end = asio::error::eof;
  on_received(end, 0);
}

std::size_t HttpConnection::write_some_tls(std::string_view bytes, error_code& error) {
  std::size_t count = 0;
  auto step = tls_->stream.write(bytes, count);
  tls_->write_wants_read = step == TlsStream::Step::wants_read;
  if (tls_->write_wants_read) tls_->may_hold_bytes = true;
  if (step == TlsStream::Step::failed) error = asio::error::broken_pipe;
  if (step == TlsStream::Step::wants_read || step == TlsStream::Step::wants_write)
    error = asio::error::would_block;
  return count;
}

tcp::socket::wait_type HttpConnection::awaited_for_writing() const {
  return tls_ && tls_->write_wants_read ? tcp::socket::wait_read : tcp::socket::wait_write;
}

}  // namespace warren
