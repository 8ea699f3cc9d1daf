#pragma once
// The protocol of Once without a socket: facts in, intentions out. The simulator and Once drive
// this same code.
//
//   begin() ──▶ asking ◀──▶ waiting (for another process)
//                 │ granted, or alone since Redis is away
//                 ▼
//              working ──on_left, on_failed──▶ settling ──▶ over (outcome)
//                 │ lost, abandoned, too long     ▲ │ refused: asks again
//                 ▼                               │ ▼
//              stopping ──────on_stopped──────────┘
//
// One machine serves one process: any number of flights. A flight is what this process wants for
// one name. It claims under an attempt of its own, so that the server can tell it from all other
// flights, including those of the same process.
//
// A claim counts from before the request left, like a lease (lease/machine.h).
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "primitives/once/terms.h"
#include "redis/resp/reply.h"

namespace warren {

enum class OnceHow : std::uint8_t {
  done,         // by our own work
  attached,     // it existed, or another process created it
  unconfirmed,  // by our own work while Redis was away; recorded when Redis is back
};
std::string_view name(OnceHow how);

struct OnceOutcome {
  OnceHow how;
  OnceRecord record;  // without a status: it no longer exists
};

// Mistakes that tests plant to check that they would be found.
struct OnceFlaws {
  bool deadline_from_reply = false;  // instead of from before the request was sent
  bool works_past_deadline = false;
  bool ignores_refusal = false;    // refusals of what it settles
  bool ignores_gap = false;        // in the messages
  bool never_looks_again = false;  // whether the working process is still alive
};

// The content of the state key, from a reply or a message.
struct OnceState {
  enum class Phase : std::uint8_t { none, busy, left, failed };
  Phase phase = Phase::none;
  FencingToken token{};
  std::string status, owner, was, record, left, note;
  std::optional<Error> error{};
  std::chrono::milliseconds alive_for{}, retry_after{};  // counted from the reply
  bool is_complete = true;                               // false: without the bytes of the record
  // Only in the reply to a question.
  bool is_done = false;
  std::string foreign{};
  std::optional<std::chrono::milliseconds> foreign_lock{};

  static std::optional<OnceState> of(const redis::Reply& reply);
  // Also returns the name.
  static std::optional<std::pair<std::string, OnceState>> of_message(std::string_view payload);
  OnceRecord as_record(std::string name) const;
};

class OnceMachine {
 public:
  using Id = std::uint64_t;
  enum class State : std::uint8_t { asking, waiting, working, stopping, settling, over };

  // What to send: one run of scripts::once. Any request may be sent twice.
  struct Request {
    std::uint64_t id = 0;
    std::vector<std::string> keys, args;
    Clock::time_point deadline{};
    bool is_renewal = false;
  };

  // `holder` is new at every process start, and never reused.
  OnceMachine(OnceTerms terms, std::string holder, bool is_cluster, OnceFlaws flaws = {});

  // Without a step: wants whatever is there, or else to create it. Returns Errc::invalid for the
  // name or the step.
  Result<Id> begin(Clock::time_point now, std::string name, std::optional<OnceStep> step);
  // Another caller waits for it, before it is over.
  void want(Id id) { at(id).is_wanted = true; }
  // No caller waits for it any more. If it works, OnceTerms::when_abandoned decides.
  void leave(Id id);
  // The work must stop and leave the step free for others, whatever the terms say.
  void abandon(Id id);

  // How the work ended, once the state said to begin (working) or to stop (stopping).
  void on_left(Clock::time_point now, Id id, OnceLeft left);
  void on_failed(Clock::time_point now, Id id, Error error,
                 std::optional<std::chrono::milliseconds> retry_after);
  void on_stopped(Clock::time_point now, Id id);
  // Records what a process that takes over should know. Returns the note's number: see has_noted().
  std::uint64_t note(Clock::time_point now, Id id, std::string text);

  void on_reply(Clock::time_point now, std::uint64_t request, const Result<redis::Reply>& reply);
  // Takes a message from channel().
  void on_message(Clock::time_point now, std::string_view payload);
  // Messages may have been missed.
  void on_gap(Clock::time_point now);
  // There is a new connection, or another primary: claims granted there may be gone.
  void on_connected(Clock::time_point now, std::uint64_t epoch);

  // Returns the next request to send: call it until it returns nullopt.
  std::optional<Request> next(Clock::time_point now);
  // Call next() no later than this.
  Clock::time_point wake_at() const;
  // The flights that have changed since the last call.
  std::vector<Id> take_changes() { return std::exchange(changes_, {}); }

  bool knows(Id id) const { return flights_.contains(id); }
  State state(Id id) const { return at(id).state; }
  // Returns nullopt while it is under way. May have a value before the flight is over: then it
  // still has to be recorded.
  const std::optional<Result<OnceOutcome>>& outcome(Id id) const { return at(id).outcome; }
  const std::string& name(Id id) const { return at(id).name; }
  const std::string& attempt(Id id) const { return at(id).attempt; }
  // What last went wrong on the way to Redis, as long as it has not answered.
  const std::optional<Error>& problem(Id id) const { return at(id).problem; }
  // The token of the step. Zero while Redis has not granted it (optimistic).
  FencingToken token(Id id) const { return at(id).has_claim ? at(id).token : FencingToken{}; }
  Clock::time_point deadline(Id id) const { return deadline(at(id)); }
  const std::optional<OnceRecord>& record(Id id) const { return at(id).record; }
  const std::optional<OnceEarlier>& earlier(Id id) const { return at(id).earlier; }
  bool has_noted(Id id, std::uint64_t number) const { return at(id).note_confirmed >= number; }
  std::string_view why_stopped(Id id) const;

  // Questions that belong to no flight: the keys and arguments of one run of the script.
  Request to_get(const std::string& name) const;
  Request to_replace(const OnceRecord& record, const OnceLeft& left);
  Request to_refresh(const OnceRecord& record) const;

  // Returns Errc::invalid if it may not be used.
  Result<> check(std::string_view name) const;
  static Result<> check(const OnceLeft& left);

  const OnceTerms& terms() const { return terms_; }
  const std::string& holder() const { return holder_; }
  const std::string& channel() const { return channel_; }

  struct Counters {
    std::uint64_t claimed = 0, taken_over = 0, attached = 0, failed = 0, lost = 0, refused = 0,
                  alone = 0, recorded = 0;
  };
  const Counters& counters() const { return counters_; }
  std::size_t flights() const { return flights_.size(); }

 private:
  enum class Stop : std::uint8_t { lost, abandoned, too_long };
  enum class How : std::uint8_t { left, failed, back };
  struct Flight {
    std::string name;
    OnceKeys keys;
    bool is_ensure = false;
    OnceStep step;
    std::string attempt;
    State state = State::asking;
    bool is_wanted = true;
    std::optional<Result<OnceOutcome>> outcome{};

    std::uint64_t request = 0;         // the request under way, or 0
    bool asks_again = false;           // the answer under way may already be outdated
    Clock::time_point next{};          // when to ask, look, renew or settle
    Clock::time_point timer{};         // its entry in timers_
    Clock::time_point silent_since{};  // while asking or settling: no answer since then
    std::optional<Error> problem{};
    FencingToken seen{};       // the newest token in an answer: an older message was slow
    FencingToken joined{};     // the first creation that it saw, its own or another process's
    FencingToken waits_for{};  // the step of another process
    std::string waits_for_status{};

    bool has_claim = false;
    FencingToken token{};
    Clock::time_point confirmed{};  // the server granted the claim then or later
    Clock::time_point began{};      // when the work, or the settling, began
    std::optional<OnceRecord> record{};
    std::optional<OnceEarlier> earlier{};
    std::string note{};
    std::uint64_t notes = 0, note_confirmed = 0;
    Stop stop{};

    How how{};
    OnceLeft left{};
    Error error{Errc::cancelled, ""};
    std::chrono::milliseconds retry_after{};
  };
  struct Sent {
    enum class About : std::uint8_t { take, renew, settle } about{};
    Id flight = 0;
    Clock::time_point at{};
    std::uint64_t notes = 0;
  };

  Flight& at(Id id) { return flights_.at(id); }
  const Flight& at(Id id) const { return flights_.at(id); }
  bool is_optimistic() const { return terms_.without_redis == OnceWithoutRedis::optimistic; }
  Clock::time_point deadline(const Flight& flight) const;
  Clock::time_point settle_end(const Flight& flight) const;
  bool is_past_deadline(const Flight& flight, Clock::time_point now) const;
  void new_attempt(Flight& flight);
  std::string text(const std::string& name, std::string_view status, std::string_view bytes,
                   const Error* error = nullptr) const;
  Request request_of(const std::string& name, const OnceKeys& keys, std::string what,
                     const std::string& attempt, FencingToken token, std::string text,
                     std::chrono::milliseconds text_ttl) const;

  void update(Id id, Flight& flight, Clock::time_point now);
  void act(Id id, Flight& flight, Clock::time_point now);
  Clock::time_point due(const Flight& flight) const;
  void send(Id id, Flight& flight, Sent::About about, Request request, Clock::time_point now);
  void send_take(Id id, Flight& flight, Clock::time_point now);
  void send_renewal(Id id, Flight& flight, Clock::time_point now);
  void send_settlement(Id id, Flight& flight, Clock::time_point now);

  void on_no_answer(Id id, Flight& flight, const Sent& sent, const Error& error,
                    Clock::time_point now);
  void on_granted(Id id, Flight& flight, const Sent& sent, const OnceState& state,
                  Clock::time_point now);
  void on_renewed(Id id, Flight& flight, const Sent& sent, const OnceState& state,
                  Clock::time_point now);
  void on_settled(Id id, Flight& flight, const OnceState& state, Clock::time_point now);
  void on_seen(Id id, Flight& flight, const OnceState& state, bool is_answer,
               Clock::time_point now);
  void on_busy(Id id, Flight& flight, const OnceState& state, Clock::time_point now);
  void on_seen_alone(Id id, Flight& flight, const OnceState& state, Clock::time_point now);
  bool was_joined(const Flight& flight, const OnceState& state) const;
  bool was_removed(const Flight& flight, const OnceState& state) const;
  static void join(Flight& flight, FencingToken token) {
    if (flight.joined == FencingToken{}) flight.joined = token;
  }

  void set(Id id, Flight& flight, State state);
  void ask(Id id, Flight& flight, Clock::time_point now);
  void ask_anew(Id id, Flight& flight, Clock::time_point now);
  void wait_until(Id id, Flight& flight, Clock::time_point time);
  void begin_alone(Id id, Flight& flight, Clock::time_point now);
  void stop(Id id, Flight& flight, Stop why);
  void settle(Id id, Flight& flight, How how, Clock::time_point now);
  void conclude(Id id, Flight& flight, Result<OnceOutcome> outcome);
  void attach(Id id, Flight& flight, const OnceState& state);
  void end(Id id, Flight& flight);
  void set_timer(Id id, Flight& flight, Clock::time_point time);

  OnceTerms terms_;
  std::string holder_, channel_;
  bool is_cluster_;
  OnceFlaws flaws_;
  std::uint64_t epoch_ = 0, last_flight_ = 0, last_request_ = 0, last_attempt_ = 0;
  std::map<Id, Flight> flights_;
  std::map<std::string, std::set<Id>, std::less<>> by_name_;
  std::map<std::uint64_t, Sent> sent_;
  std::set<std::pair<Clock::time_point, Id>> timers_;
  std::deque<Request> requests_;
  std::vector<Id> changes_;
  Counters counters_;
};

}  // namespace warren
