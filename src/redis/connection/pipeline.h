#pragma once
// Many callers on one connection, without a socket: calls and bytes in, bytes and answers out.
//
//   submit ──▶ waiting ──(write)──▶ in flight ──(read)──▶ complete
//                 ▲                     │
//                 └─── not answered ────┘ connection broken: sent again if idempotent, else the
//                                         caller gets unknown_outcome
//
// Redis answers in the order of the questions, so the calls in flight are a queue. A caller that
// leaves (cancelled, or past its deadline) only empties its place in that queue: the answer that
// still comes is dropped, and nobody else notices. The request times out, never the socket.
//
// A pipeline outlives connections. What was never given to the socket is sent on the next one;
// a call becomes bytes as late as possible, so "never sent" is a fact and not a guess.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "redis/call.h"
#include "redis/resp/parser.h"

namespace warren::redis {

struct PipelineLimits {
  std::size_t calls = 64u << 10;
  std::size_t bytes = 64u << 20;
  ParserLimits parser{};
};

struct PipelineCounters {
  std::uint64_t answered = 0, refused = 0, timed_out = 0, unknown = 0, overloaded = 0;
  std::uint64_t writes = 0, bytes_out = 0, reads = 0, bytes_in = 0;
  // From writing to answer, of one call per read: how many took at most so long.
  static constexpr std::array<double, 10> round_trip_bounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                                            0.005,  0.01,    0.05,   0.25,  1};
  std::array<std::uint64_t, round_trip_bounds.size() + 1> round_trips{};
  double round_trip_seconds = 0;

  PipelineCounters& operator+=(const PipelineCounters& other);
};

// The side of a pipeline that knows about servers and topologies.
class PipelineOwner {
 public:
  virtual ~PipelineOwner() = default;
  // The server answered with an error: complete the call, or try elsewhere.
  virtual void on_refused(Call& call, Reply error) = 0;
  // Something nobody asked for (RESP3).
  virtual void on_push(Reply push) = 0;
  // Why a call that was never sent ran out of time.
  virtual Error why_waiting() const = 0;
};

class Pipeline {
 public:
  Pipeline(PipelineOwner& owner, PipelineLimits limits);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Errc::overloaded when the bounds are met; the call is then not taken. Renewals of a few bytes
  // must not wait behind a flood, so they come through a pipeline of their own.
  Result<> submit(Call& call);

  // Turns waiting calls into bytes to send, a bounded portion at a time; empty when there is
  // nothing to do. The view is valid until the next call of wrote() or to_write().
  std::string_view to_write(Clock::time_point now);
  void wrote(std::size_t bytes);

  static constexpr std::size_t turn_bytes = 256u << 10;
  // Where the next bytes go, then how many came: at most turn_bytes, so that others get their
  // turn. Completes the calls that were answered, before it returns. Errc::protocol: the stream
  // cannot be trusted any more; unavailable: an answer to a caller that has left does not end.
  std::span<char> read_space();
  Result<> received(std::size_t bytes, Clock::time_point now);

  // Call on_time no later than this; the end of time when nothing has a deadline.
  Clock::time_point wake_at() const { return wake_at_; }
  void on_time(Clock::time_point now);

  // The connection is gone: what was in flight is completed or queued again.
  void on_disconnect(const Error& why);
  // Completes what waits for a connection: the calls that fail fast, or all of them.
  enum class Whom { fail_fast, all };
  void fail_waiting(const Error& why, Whom whom);
  // Gives all waiting calls away, to be routed anew.
  void take_waiting(CallList& into) { into.put_before(waiting_); }

  // Since when the server owes an answer, if it owes one at all: since it was asked, since its last
  // answer, or since 64 KiB of one arrived. A trickle and pushes do not count.
  Clock::time_point busy_since() const { return std::max(busy_since_, last_progress_); }
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t in_flight() const { return last_ - first_; }
  Clock::time_point last_received() const { return last_received_; }
  const PipelineCounters& counters() const { return counters_; }

 private:
  friend class Call;
  struct Slot {
    Call* call = nullptr;     // none: the caller left
    std::uint32_t left = 1;   // answers still to come; only the last one is the caller's
    std::uint32_t bytes = 0;  // what it counts against the bound
  };
  Slot& slot(std::uint64_t ticket) { return ring_[ticket & (ring_.size() - 1)]; }
  void send(Call& call, Clock::time_point now);
  void take_back_unsent(CallList& unsent);
  void forget(Call& call);
  Result<> dispatch(Reply reply);
  void sample(Clock::duration round_trip);
  Result<> watch_unfinished(std::uint64_t front, bool is_stray, std::size_t bytes);

  PipelineOwner& owner_;
  PipelineLimits limits_;
  CallList waiting_;
  std::vector<Slot> ring_;
  std::uint64_t first_ = 0, last_ = 0;  // tickets: [first_, last_) are in flight
  std::size_t in_flight_bytes_ = 0;
  std::string out_;
  std::size_t out_sent_ = 0;
  std::vector<char> in_;
  std::size_t in_begin_ = 0, in_end_ = 0;
  Parser parser_;
  Clock::time_point wake_at_ = Clock::time_point::max();
  Clock::time_point last_received_{};
  Clock::time_point busy_since_{};
  Clock::time_point last_progress_{};
  std::size_t unfinished_ = 0;  // bytes of an incomplete reply since the last progress
  std::size_t stray_ = 0;  // bytes that came while the next answer was for a caller that has left
  Clock::time_point stray_since_{};
  bool sample_wanted_ = false;  // once per read: a clock is not looked at for each call
  PipelineCounters counters_;
};

}  // namespace warren::redis
