#include "net/http/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>

#include "base/log.h"

namespace warren {

using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t first_room = 4u << 10;
constexpr std::size_t much = 64u << 10;  // the most to keep while idle, or to send at once

}  // namespace

HttpConnection::HttpConnection(HttpServer& server, tcp::socket socket, asio::ip::address client)
    : server_(&server), socket_(std::move(socket)), client_(std::move(client)) {
  if (const auto& context = server.terms_.tls)
    tls_.reset(new Tls{.stream = redis::TlsStream(*context, socket_.native_handle())});
}

void HttpConnection::start(Place place) {
  place_ = place;
  in_.resize(first_room);
  if (tls_) return shake_hands();
  enter(Phase::idle);
  receive();
}

void HttpConnection::leave() {
  if (!server_) return;
  tls_.reset();
  error_code ignored;
  socket_.close(ignored);
  if (changed_) changed_->notify();
  auto* server = std::exchange(server_, nullptr);
  auto task = std::exchange(task_, 0);
  server->ended(place_, doing(phase_));
  if (task != 0 && server->tasks_) server->tasks_->stop(task);
}

bool HttpConnection::is_late(Clock::time_point now) const {
  const auto& terms = server_->terms_;
  if (phase_ == Phase::working) {
    auto patience = is_upgraded_ ? terms.silence_time : terms.request_time;
    return (reads_since_ && now - *reads_since_ > patience) ||
           (writes_since_ && now - *writes_since_ > terms.request_time);
  }
  if (phase_ == Phase::idle) return now - since_ > terms.idle_time;
  bool is_in_head = phase_ == Phase::receiving && !is_head_whole_;
  return now - since_ >
         (is_in_head ? std::min(terms.head_time, terms.request_time) : terms.request_time);
}

void HttpConnection::enter(Phase phase) {
  server_->does(place_, doing(phase_), doing(phase));
  phase_ = phase;
  since_ = server_->now_;
  is_head_whole_ = false;
}

// A connection whose request was refused waits for its client to leave; it can go at any time.
HttpServer::Doing HttpConnection::doing(Phase phase) {
  switch (phase) {
    case Phase::idle:
      return HttpServer::Doing::idle;
    case Phase::receiving:
    case Phase::refusing:
      return HttpServer::Doing::asking;
    case Phase::working:
    case Phase::sending:
      return HttpServer::Doing::other;
  }
  return HttpServer::Doing::other;
}

// The buffer may grow to the length that the head announces. That length was checked.
void HttpConnection::make_room() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ == 0 && end_ == 0 && in_.size() > much) {
    in_ = {};
    in_.resize(first_room);
  }
  if (end_ < in_.size()) return;
  if (begin_ > 0) {
    std::copy(in_.data() + begin_, in_.data() + end_, in_.data());
    end_ -= begin_;
    begin_ = 0;
    return;
  }
  in_.resize(in_.size() * 2);
}

void HttpConnection::receive() {
  if (is_receiving_) return;
  if (has_ended_) return leave();
  make_room();
  start_receiving();
}

void HttpConnection::start_receiving() {
  is_receiving_ = true;
  if (tls_) return start_receiving_tls();
  auto room = asio::buffer(in_.data() + end_, in_.size() - end_);
  socket_.async_read_some(room, [self = shared_from_this()](error_code error, std::size_t count) {
    if (self->server_) self->on_received(error, count);
  });
}

void HttpConnection::on_received(error_code error, std::size_t count) {
  is_receiving_ = false;
  if (phase_ == Phase::working) return on_received_ahead(error, count);
  if (phase_ == Phase::sending) {  // started during the work: handled when all is sent
    has_ended_ = bool(error);
    end_ += count;
    return;
  }
  if (error) return leave();
  if (phase_ == Phase::refusing) return receive();  // and drop it
  end_ += count;
  proceed();
}

void HttpConnection::proceed() {
  while (out_.size() < much && serve_one()) continue;
  if (phase_ == Phase::working) return;
  if (!out_.empty()) return send();
  receive();
}

bool HttpConnection::serve_one() {
  while (end_ - begin_ >= 2 && in_[begin_] == '\r' && in_[begin_ + 1] == '\n') begin_ += 2;
  if (begin_ == end_ || ends_after_sending_) return false;
  std::string_view bytes(in_.data() + begin_, end_ - begin_);
  auto state = parse_head(bytes, head_);
  if (phase_ == Phase::idle) enter(Phase::receiving);
  is_head_whole_ = state == HeadState::whole;
  if (state == HeadState::partial) return false;
  if (state == HeadState::wrong) {
    refuse(head_.problem, head_.what);
    return false;
  }
  const auto& terms = server_->terms_;
  head_.request.client = client_;
  head_.request.exchange = this;
  if (terms.stream_limit)
    if (auto most = terms.stream_limit(head_.request); most > 0) return serve_streamed(most);
  if (head_.is_chunked) {
    refuse(411, "a body needs a Content-Length");
    return false;
  }
  if (head_.body_size > 0) {
    auto most = terms.body_limit ? std::min(terms.most_body, terms.body_limit(head_.request))
                                 : terms.most_body;
    if (head_.body_size > most) {
      refuse(413, most == 0 ? "no body is expected here" : "the body is too long");
      return false;
    }
  }
  if (bytes.size() - head_.size < head_.body_size) {
    if (head_.waits_for_continue && !std::exchange(was_told_to_continue_, true))
      out_.append("HTTP/1.1 100 Continue\r\n\r\n");
    return false;
  }
  head_.request.body = bytes.substr(head_.size, head_.body_size);
  if (head_.wants_upgrade && head_.body_size == 0) keep_head();
  dispatch();
  return phase_ != Phase::working;
}

bool HttpConnection::serve_streamed(std::uint64_t most) {
  if (!head_.is_chunked && head_.body_size > most) {
    refuse(413, "the body is too long");
    return false;
  }
  auto end = head_.is_chunked ? chunked : body_of(head_.body_size);
  keep_head();
  reader_.emplace(static_cast<HttpWire&>(*this), end, most);
  dispatch();
  return phase_ != Phase::working;
}

// Copies the head out of the buffer, to make room for what follows it.
void HttpConnection::keep_head() {
  kept_.assign(in_, begin_, head_.size);
  begin_ += head_.size;
  parse_head(kept_, head_);
  head_.size = head_.body_size = 0;
}

// The client may still be sending. If we closed at once, it would not see the reason.
void HttpConnection::refuse(int status, std::string_view what) {
  answer_.clear();
  answer_.status = status;
  answer_.body.append(what).append("\n");
  write_answer(out_, answer_, server_->date_, server_->terms_.headers, true, false);
  ends_after_sending_ = was_refused_ = true;
  begin_ = end_ = 0;
}

void HttpConnection::dispatch() {
  answer_.clear();
  ++server_->counters_.requests;
  if (server_->terms_.is_for_this_machine && !server_->is_here(head_.request.header("host"))) {
    answer_.status = 421;
    answer_.body = "this is not the machine of that name\n";
    return answered();
  }
  auto work = handled();
  if (!work) return answered();
  flush();
  enter(Phase::working);
  task_ = server_->tasks_->start("http.request", finish(shared_from_this(), *std::move(work)));
  watch();
}

// An exception from a library ends one request, not the service.
HttpServer::Work HttpConnection::handled() {
  try {
    return server_->handler_(head_.request, answer_);
  } catch (const std::exception& thrown) {
    failed(thrown);
    return std::nullopt;
  }
}

void HttpConnection::failed(const std::exception& thrown) {
  log::error("http.request_failed", "path", head_.request.path, "why", thrown.what());
  answer_.clear();
  answer_.status = 500;
  answer_.body = "this went wrong\n";
}

awaitable<void> HttpConnection::finish(std::shared_ptr<HttpConnection> self, awaitable<void> work) {
  // Do not run within the call that started the work.
  co_await asio::post(self->socket_.get_executor(), asio::use_awaitable);
  struct Otherwise {
    HttpConnection* connection;
    ~Otherwise() {
      if (!connection) return;
      connection->task_ = 0;
      connection->cut_off();
    }
  } cancelled{self.get()};
  try {
    co_await std::move(work);
  } catch (const std::exception& thrown) {
    if (is_cancellation(std::current_exception())) throw;
    self->failed(thrown);
  }
  cancelled.connection = nullptr;
  self->task_ = 0;
  if (!self->server_) co_return;
  if (self->writer_) {
    self->finish_streaming();
    co_return;
  }
  self->answered();
  self->enter(Phase::receiving);
  self->proceed();
}

void HttpConnection::answered() {
  bool keeps_alive = head_.keeps_alive && !server_->is_draining_;
  if (reader_) {
    was_refused_ = !reader_->skip_arrived();
    keeps_alive = keeps_alive && !was_refused_;
    reader_.reset();
  }
  if (keeps_alive && head_.is_old) answer_.add("Connection", "keep-alive");
  write_answer(out_, answer_, server_->date_, server_->terms_.headers,
               head_.request.method != "HEAD", keeps_alive);
  ends_after_sending_ = !keeps_alive;
  was_told_to_continue_ = false;
  begin_ += head_.size + head_.body_size;
}

// Earlier answers do not wait for work that takes longer. Whatever the socket does not take now,
// and any error, is handled when all is sent.
void HttpConnection::flush() {
  error_code ignored;
  if (sent_ < out_.size()) sent_ += write_some(std::string_view(out_).substr(sent_), ignored);
}

std::size_t HttpConnection::write_some(std::string_view bytes, error_code& error) {
  if (tls_) return write_some_tls(bytes, error);
  return socket_.write_some(asio::buffer(bytes), error);
}

// Usually the socket takes everything at once.
void HttpConnection::send() {
  error_code error;
  sent_ += write_some(std::string_view(out_).substr(sent_), error);
  if (error && error != asio::error::would_block) return leave();
  if (sent_ == out_.size()) return after_sending();
  // A client that reads byte by byte does not get more time.
  if (phase_ != Phase::sending) enter(Phase::sending);
  if (tls_) {
    socket_.async_wait(awaited_for_writing(), [self = shared_from_this()](error_code failed) {
      if (self->server_) self->on_sent(failed, 0);
    });
    return;
  }
  auto rest = asio::buffer(out_.data() + sent_, out_.size() - sent_);
  socket_.async_write_some(rest, [self = shared_from_this()](error_code failed, std::size_t count) {
    if (self->server_) self->on_sent(failed, count);
  });
}

void HttpConnection::on_sent(error_code error, std::size_t count) {
  if (error) return leave();
  sent_ += count;
  if (sent_ == out_.size()) return after_sending();
  send();
}

void HttpConnection::after_sending() {
  sent_ = 0;
  if (out_.capacity() > 2 * much) out_ = {};
  out_.clear();
  if (!ends_after_sending_) {
    if (begin_ == end_) {
      if (server_->is_draining_) return leave();
      enter(Phase::idle);
      return receive();
    }
    enter(Phase::receiving);
    return proceed();
  }
  close_after_sending();
}

void HttpConnection::close_after_sending() {
  if (!was_refused_) return leave();
  if (tls_) tls_->stream.say_goodbye();
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  if (error) return leave();
  enter(Phase::refusing);
  begin_ = end_ = 0;
  receive();
}

}  // namespace warren
