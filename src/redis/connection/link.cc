#include "redis/connection/link.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <random>

#include "base/log.h"
#include "redis/operation.h"
#include "redis/resp/refusal.h"

namespace warren::redis {

using namespace asio::experimental::awaitable_operators;

namespace {

// Retrying cannot fix these, so waiting calls fail at once.
bool is_permanent(Errc code) {
  return code == Errc::denied || code == Errc::protocol || code == Errc::invalid;
}

}  // namespace

double random_unit() {
  thread_local std::minstd_rand generator{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

Clock::duration Backoff::next(double random) {
  auto whole = std::min(most_, least_ * (1 << std::min(step_++, 16)));
  return std::chrono::duration_cast<Clock::duration>(whole * (0.5 + random / 2));
}

// Checks that an idle server is alive. Any byte is a sufficient answer.
class Link::Ping final : public Call {
 public:
  Ping() : Call(Command("PING"), CallOptions()) {}
  void complete(Result<Reply>) override {}
};

Link::Link(asio::any_io_executor executor, const Settings& settings, Connector& connector,
           LinkOwner& owner)
    : settings_(settings),
      connector_(connector),
      owner_(owner),
      pipeline_(*this, PipelineLimits{settings.max_calls, settings.max_call_bytes}),
      deadline_timer_(executor, Clock::time_point::max()),
      flush_wanted_(executor),
      ping_(std::make_unique<Ping>()) {}

Link::~Link() = default;

void Link::submit(Call& call) {
  if (stopped_)
    return complete_later(deadline_timer_.get_executor(), call,
                          {Errc::cancelled, "the client is closed"});
  auto taken = pipeline_.submit(call);
  if (!taken) return complete_later(deadline_timer_.get_executor(), call, taken.error());
  if (pipeline_.wake_at() < deadline_timer_.expiry()) deadline_timer_.cancel();
  if (!transport_) return;
  if (pipeline_.in_flight() == 0 || (dispatching_ && pipeline_.waiting() >= flush_at_)) {
    flush();
  } else if (dispatching_) {
    // The end of the batch flushes.
  } else if (!wants_flush_) {
    wants_flush_ = true;
    flush_wanted_.notify();
  }
}

void Link::flush() {
  if (!transport_ || problem_ || write_blocked_ || write_closed_) return;
  auto now = Clock::now();
  for (;;) {
    auto bytes = pipeline_.to_write(now);
    if (bytes.empty()) return;
    auto done = transport_->write(bytes);
    if (done.status == Transport::Done::closed) {
      // Answers may still be unread. The read loop reads them and then finds the end.
      write_closed_ = true;
      return;
    }
    if (done.status == Transport::Done::would_block) {
      write_blocked_ = true;
      return flush_wanted_.notify();
    }
    pipeline_.wrote(done.bytes);
  }
}

void Link::break_connection(Error why) {
  if (!problem_) problem_ = std::move(why);
  transport_->close();  // the read loop notices
}

void Link::reconnect(std::string why) {
  if (transport_) break_connection(on_the_way({Errc::unavailable, std::move(why)}));
}

awaitable<void> Link::run() {
  co_await until_cancelled(stay_connected() && watch_deadlines());
  stopped_ = true;
  transport_.reset();
  Error closed{Errc::cancelled, "the client is closed"};
  pipeline_.on_disconnect(closed);
  pipeline_.fail_waiting(closed, Pipeline::Whom::all);
}

awaitable<void> Link::stay_connected() {
  Backoff backoff(settings_.backoff_least, settings_.backoff_most);
  for (;;) {
    auto conversation = co_await connector_.connect(Clock::now() + settings_.connect_timeout);
    if (!conversation) {
      problem_ = conversation.error();
      if (problem_->code == Errc::cancelled) co_return;
      ++counters_.connect_failures;
      log::debug("redis.connect_failed", "code", name(problem_->code), "what", problem_->what);
      owner_.on_broken(*this, *problem_);
      pipeline_.fail_waiting(*problem_, is_permanent(problem_->code) ? Pipeline::Whom::all
                                                                     : Pipeline::Whom::fail_fast);
      co_await sleep_for(backoff.next(random_unit()));
      continue;
    }
    address_ = (*conversation)->address();
    transport_ = (*conversation)->release();
    problem_.reset();
    write_blocked_ = write_closed_ = false;
    ++counters_.connects;
    log::debug("redis.connected", "address", to_string(address_));
    owner_.on_connected(*this);
    auto before = pipeline_.counters().answered;
    Error why = co_await serve();
    if (pipeline_.counters().answered > before) backoff.reset();
    transport_.reset();
    problem_ = why;
    pipeline_.on_disconnect(why);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
    log::warn("redis.disconnected", "address", to_string(address_), "why", why.what);
    owner_.on_broken(*this, why);
    if (pipeline_.counters().answered == before) co_await sleep_for(backoff.next(random_unit()));
  }
}

awaitable<Error> Link::serve() {
  flush();
  auto ended = co_await (read_loop() || keep_alive() || flush_loop());
  if (problem_) co_return *problem_;
  if (auto* error = std::get_if<0>(&ended)) co_return on_the_way(*error);
  if (auto* error = std::get_if<1>(&ended)) co_return on_the_way(*error);
  co_return on_the_way({Errc::unavailable, "the connection was given up"});
}

awaitable<Error> Link::read_loop() {
  // A resumed caller may close the client; that reaches only loops that have all been started.
  auto executor = co_await asio::this_coro::executor;
  co_await asio::post(executor, asio::use_awaitable);
  for (std::size_t in_turn = 0;;) {
    if (in_turn >= Pipeline::turn_bytes) {  // TLS may have more without asking the socket
      in_turn = 0;
      co_await asio::post(executor, asio::use_awaitable);
    }
    auto space = pipeline_.read_space();
    auto done = co_await receive(space);
    if (done.status == Transport::Done::closed) co_return transport_->why();
    if (done.status == Transport::Done::would_block) continue;
    in_turn += done.bytes;
    flush_at_ = std::max<std::size_t>(16, pipeline_.in_flight() / 4);
    dispatching_ = true;
    auto understood = pipeline_.received(done.bytes, Clock::now());
    dispatching_ = false;
    if (!understood) co_return understood.error();
    flush();
    if (problem_) co_return *problem_;
  }
}

awaitable<Transport::Done> Link::receive(std::span<char> space) {
  auto in_flight = pipeline_.in_flight();
  if (0 < in_flight && in_flight < 4 && vigil_.may_begin()) {
    auto executor = deadline_timer_.get_executor();
    for (auto end = Clock::now() + Vigil::length; Clock::now() < end;) {
      auto done = transport_->read(space);
      if (done.status != Transport::Done::would_block) {
        vigil_.paid();
        co_return done;
      }
      co_await asio::post(executor, asio::use_awaitable);  // let other work run first
    }
    vigil_.was_in_vain();
  }
  co_return co_await transport_->receive(space);
}

awaitable<void> Link::flush_loop() {
  for (;;) {
    if (write_blocked_) {
      co_await transport_->wait_writable();
      write_blocked_ = false;
    }
    wants_flush_ = false;
    flush();
    if (!write_blocked_ && !wants_flush_) co_await flush_wanted_.wait();
  }
}

awaitable<Error> Link::keep_alive() {
  auto connected = Clock::now();
  for (;;) {
    co_await sleep_for(settings_.ping_interval / 2);
    auto now = Clock::now();
    auto silence = now - std::max(pipeline_.last_received(), connected);
    auto owed = now - std::max(pipeline_.busy_since(), connected);
    if (pipeline_.in_flight() > 0 && owed > settings_.silence_limit)
      co_return Error{
          Errc::unavailable,
          fmt::format("{} has not answered for {} ms", to_string(address_),
                      std::chrono::duration_cast<std::chrono::milliseconds>(owed).count())};
    if (silence > settings_.ping_interval / 2 && !ping_->is_pending()) {
      ping_->set_deadline(Clock::time_point::max());
      submit(*ping_);
    }
  }
}

awaitable<void> Link::watch_deadlines() {
  for (;;) {
    deadline_timer_.expires_at(pipeline_.wake_at());
    boost::system::error_code interrupted;
    co_await deadline_timer_.async_wait(asio::redirect_error(asio::use_awaitable, interrupted));
    auto now = Clock::now();
    if (pipeline_.wake_at() <= now) pipeline_.on_time(now);
  }
}

void Link::on_refused(Call& call, Reply error) { owner_.on_refused(*this, call, std::move(error)); }

void Link::on_push(Reply push) { log::debug("redis.pushed", "push", to_string(push)); }

Error Link::why_waiting() const {
  if (problem_ && !transport_) return *problem_;
  if (!transport_) return on_the_way({Errc::unavailable, "not connected yet"});
  return on_the_way({Errc::timeout, "the connection takes no more bytes"});
}

}  // namespace warren::redis
