#include "net/http/link.h"

#include <algorithm>

namespace warren {

using redis::Transport;

namespace {

Async<> readable(Transport& transport) {
  co_await transport.wait_readable();
  co_return ok;
}

Async<> writable(Transport& transport) {
  co_await transport.wait_writable();
  co_return ok;
}

// A cancelled wait returns like any other, so check for cancellation here.
Async<> still_wanted(Clock::time_point until) {
  auto state = co_await asio::this_coro::cancellation_state;
  if (is_cancelled(state)) co_return fail(Errc::cancelled, "the caller left");
  if (Clock::now() >= until) co_return fail(Errc::timeout, "the server is silent for too long");
  co_return ok;
}

}  // namespace

HttpLink::HttpLink(std::unique_ptr<Transport> transport, Clock::duration piece_time)
    : transport_(std::move(transport)), piece_time_(piece_time), in_(most_piece, '\0') {}

std::string_view HttpLink::arrived() const { return {in_.data() + begin_, end_ - begin_}; }

void HttpLink::consume(std::size_t bytes) { begin_ += bytes; }

void HttpLink::begin(Clock::time_point deadline) {
  deadline_ = deadline;
  read_time_ = Clock::duration::max();
}

bool HttpLink::is_fresh() {
  is_reused_ = true;
  used_at_ = Clock::now();
  char byte = 0;
  return begin_ == end_ && transport_->read({&byte, 1}).status == Transport::Done::would_block;
}

Clock::time_point HttpLink::patience(Clock::duration time) const {
  auto now = Clock::now();
  return deadline_ - now < time ? deadline_ : now + time;
}

void HttpLink::make_room() {
  if (begin_ > 0) {
    std::copy(in_.data() + begin_, in_.data() + end_, in_.data());
    end_ -= std::exchange(begin_, 0);
  }
  ensure(end_ < in_.size(), "what must be seen as a whole is shorter than a piece");
}

Async<bool> HttpLink::more() {
  make_room();
  auto until = patience(read_time_);
  for (;;) {
    auto done = transport_->read({in_.data() + end_, in_.size() - end_});
    end_ += done.bytes;
    if (done.status == Transport::Done::some) co_return true;
    if (done.status == Transport::Done::closed) {
      if (transport_->ended_well()) co_return false;
      co_return fail(Errc::unknown_outcome, "{}", transport_->why().what);
    }
    auto waited = co_await with_deadline(until, readable(*transport_));
    if (waited) waited = co_await still_wanted(until);
    if (!waited) co_return std::unexpected(waited.error());
  }
}

Async<> HttpLink::send(std::string_view bytes) {
  auto until = patience(piece_time_);
  while (!bytes.empty()) {
    auto done = transport_->write(bytes);
    if (done.status == Transport::Done::closed)
      co_return fail(Errc::unknown_outcome, "{}", transport_->why().what);
    bytes.remove_prefix(done.bytes);
    if (bytes.empty()) break;
    auto waited = co_await with_deadline(until, writable(*transport_));
    if (waited) waited = co_await still_wanted(until);
    if (!waited) co_return std::unexpected(waited.error());
  }
  co_return ok;
}

}  // namespace warren
