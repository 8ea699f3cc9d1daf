// What a connection does while its request is worked on.
#include "net/http/exchange.h"

#include <boost/asio/redirect_error.hpp>
#include <limits>

#include "net/http/connection.h"

namespace warren {

using asio::ip::tcp;
using boost::system::error_code;

BodyReader& HttpConnection::in() {
  ensure(reader_, "the body of this request is streamed: see HttpTerms::stream_limit");
  return *reader_;
}

BodyWriter& HttpConnection::out() {
  ensure(writer_, "an answer was begun");
  return *writer_;
}

BodyWriter& HttpConnection::begin(std::optional<std::uint64_t> length) {
  ensure(phase_ == Phase::working && !writer_, "work begins its answer, and once");
  auto end = length ? body_of(*length) : head_.is_old ? until_close : chunked;
  bool has_none = head_.request.method == "HEAD" || !has_body(answer_.status);
  keeps_alive_ = head_.keeps_alive && server_ && !server_->is_draining_;
  if (end == until_close) keeps_alive_ = false;
  if (keeps_alive_ && head_.is_old) answer_.add("Connection", "keep-alive");
  std::string head;
  if (server_)
    write_head(head, answer_, server_->date_, server_->terms_.headers, end, keeps_alive_);
  auto& wire = static_cast<HttpWire&>(*this);
  if (has_none)
    writer_.emplace(BodyWriter::without_body(wire, std::move(head)));
  else
    writer_.emplace(wire, end, std::move(head));
  return *writer_;
}

Async<> HttpConnection::upgrade(std::string protocol) {
  ensure(phase_ == Phase::working && !writer_, "work takes over what was not answered yet");
  auto header = "Upgrade: " + protocol;
  if (!head_.wants_upgrade || reader_ || !is_header(header))
    co_return fail(Errc::invalid, "the client did not ask for {}", protocol);
  is_upgraded_ = true;
  auto& wire = static_cast<HttpWire&>(*this);
  reader_.emplace(wire, until_close, std::numeric_limits<std::uint64_t>::max());
  writer_.emplace(wire, until_close,
                  fmt::format("HTTP/1.1 101 {}\r\n{}\r\nConnection: Upgrade\r\n{}\r\n",
                              reason_of(101), header, answer_.headers));
  co_return co_await writer_->flush();
}

// Continues reading without moving the buffered bytes: the request, or a piece that is in use.
void HttpConnection::watch() {
  if (is_receiving_ || has_ended_) return;
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (reader_ && in_.size() < most_piece) in_.resize(most_piece);
  }
  if (end_ < in_.size()) start_receiving();
}

void HttpConnection::on_received_ahead(error_code error, std::size_t count) {
  has_ended_ = bool(error);
  // On an upgraded connection, one side may end before the other.
  if (error && !(is_upgraded_ && error == asio::error::eof)) return leave();
  end_ += count;
  watch();
  if (changed_) changed_->notify();
}

std::string_view HttpConnection::arrived() const { return {in_.data() + begin_, end_ - begin_}; }

void HttpConnection::consume(std::size_t bytes) { begin_ += bytes; }

Async<bool> HttpConnection::more() {
  if (!changed_) changed_.emplace(socket_.get_executor());
  if (head_.waits_for_continue && !writer_ && !std::exchange(was_told_to_continue_, true)) {
    auto told = co_await send("HTTP/1.1 100 Continue\r\n\r\n");
    if (!told) co_return std::unexpected(told.error());
  }
  auto had = arrived().size();
  if (server_) reads_since_ = server_->now_;
  while (server_ && !has_ended_ && arrived().size() == had) {
    if (!is_receiving_) make_room();
    watch();
    co_await changed_->wait();
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) break;
  }
  reads_since_.reset();
  if (arrived().size() > had) co_return true;
  if (server_ && has_ended_) co_return false;
  co_return fail(Errc::cancelled, "the client left, or the server is stopped");
}

// Earlier answers are sent first.
Async<> HttpConnection::send(std::string_view bytes) {
  auto left = [] { return fail(Errc::cancelled, "the client left, or the server is stopped"); };
  while (!bytes.empty()) {
    if (!server_) co_return left();
    bool is_earlier = sent_ < out_.size();
    auto next = is_earlier ? std::string_view(out_).substr(sent_) : bytes;
    error_code error;
    auto count = write_some(next, error);
    if (is_earlier)
      sent_ += count;
    else
      bytes.remove_prefix(count);
    if (error && error != asio::error::would_block) {
      leave();
      co_return left();
    }
    if (error || count < next.size()) co_await wait_writable();
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return left();
  }
  out_.clear();
  sent_ = 0;
  co_return ok;
}

awaitable<void> HttpConnection::wait_writable() {
  error_code ignored;
  writes_since_ = server_->now_;
  co_await socket_.async_wait(awaited_for_writing(),
                              asio::redirect_error(asio::use_awaitable, ignored));
  writes_since_.reset();
}

void HttpConnection::finish_streaming() {
  if (!is_upgraded_ && !writer_->is_whole()) return cut_off();
  // If the client is still sending, closing would reset the connection before it has read the
  // answer.
  was_refused_ = is_upgraded_ || (reader_ && !reader_->skip_arrived());
  ends_after_sending_ = was_refused_ || !keeps_alive_;
  was_told_to_continue_ = false;
  begin_ += head_.size + head_.body_size;
  reader_.reset();
  writer_.reset();
  is_upgraded_ = false;
  enter(Phase::receiving);
  after_sending();
}

// If the body ends with the connection, a normal close would make it look complete. So reset
// instead.
void HttpConnection::cut_off() {
  error_code ignored;
  if (server_ && tls_) tls_->stream.leave_silently();
  if (server_ && writer_ && writer_->ends_by_close() && !is_upgraded_)
    socket_.set_option(tcp::socket::linger(true, 0), ignored);
  leave();
}

}  // namespace warren
