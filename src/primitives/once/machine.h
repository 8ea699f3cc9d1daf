#pragma once
// The protocol of Once without a socket: facts in, intentions out. The simulator and Once drive this
// same code.
//
//   begin() ──▶ asking ◀──▶ waiting (for somebody else)
//                 │ granted, or alone since Redis is away
//                 ▼
//              working ──on_left, on_failed──▶ settling ──▶ over (outcome)
//                 │ lost, abandoned, too long     ▲ │ refused: asking anew
//                 ▼                               │ ▼
//              stopping ──────on_stopped──────────┘
//
// One machine serves one process: any number of flights. A flight is a wish of this process about one
// name; it is claimed under an attempt of its own, so that the server tells it from all others, also
// from one of this process.
//
// The belief in a claim counts from before the request left, as that in a lease (lease/machine.h).
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
  attached,     // it was there, or somebody else did it
  unconfirmed,  // by our own work while Redis was away: it is recorded when Redis is back
};
std::string_view name(OnceHow how);

struct OnceOutcome {
  OnceHow how;
  OnceRecord record;  // without a status: there is none any more
};

// Mistakes that tests plant, to see that they are found.
struct OnceFlaws {
  bool deadline_from_reply = false;  // instead of from before the request left
  bool works_past_deadline = false;
  bool ignores_refusal = false;    // of what it settles
  bool ignores_gap = false;        // in the messages
  bool never_looks_again = false;  // whether who works is still alive
};

// What the state key says, as a reply or a message has it.
struct OnceState {
  enum class Phase : std::uint8_t { none, busy, left, failed };
  Phase phase = Phase::none;
  FencingToken token{};
  std::string status, owner, was, record, left, note;
  std::optional<Error> error{};
  std::chrono::milliseconds alive_for{}, retry_after{};  // from when it was said
  bool is_complete = true;                               // else without the bytes of the record
  // Of an answer to a question.
  bool is_done = false;
  std::string foreign{};
  std::optional<std::chrono::milliseconds> foreign_lock{};

  static std::optional<OnceState> of(const redis::Reply& reply);
  // And the name.
  static std::optional<std::pair<std::string, OnceState>> of_message(std::string_view payload);
  OnceRecord as_record(std::string name) const;
};

class OnceMachine {
 public:
  using Id = std::uint64_t;
  enum class State : std::uint8_t { asking, waiting, working, stopping, settling, over };

  // What to send: a run of scripts::once. All of them may be sent twice.
  struct Request {
    std::uint64_t id = 0;
    std::vector<std::string> keys, args;
    Clock::time_point deadline{};
    bool is_renewal = false;
  };

  // The holder is new at every process start, never reused.
  OnceMachine(OnceTerms terms, std::string holder, bool is_cluster, OnceFlaws flaws = {});

  // Without a step: whatever is there, or else to create it. Errc::invalid: the name or the step.
  Result<Id> begin(Clock::time_point now, std::string name, std::optional<OnceStep> step);
  // Somebody waits for it again, before it is over.
  void want(Id id) { at(id).is_wanted = true; }
  // Nobody waits for it any more. Of who works, OnceTerms::when_abandoned decides.
  void leave(Id id);
  // The work is to stop, and to be free for others, whatever the terms are.
  void abandon(Id id);

  // How the work ended, once it has been told to begin (working), or to stop (stopping).
  void on_left(Clock::time_point now, Id id, OnceLeft left);
  void on_failed(Clock::time_point now, Id id, Error error,
                 std::optional<std::chrono::milliseconds> retry_after);
  void on_stopped(Clock::time_point now, Id id);
  // What who takes over is to be told. Returns its number: see has_noted.
  std::uint64_t note(Clock::time_point now, Id id, std::string text);

  void on_reply(Clock::time_point now, std::uint64_t request, const Result<redis::Reply>& reply);
  // On channel().
  void on_message(Clock::time_point now, std::string_view payload);
  // Messages may have been missed.
  void on_gap(Clock::time_point now);
  // There is a new connection, or another primary: what was granted there may be gone.
  void on_connected(Clock::time_point now, std::uint64_t epoch);

  // What to send now, one after the other until there is nothing.
  std::optional<Request> next(Clock::time_point now);
  // Call next() again by then.
  Clock::time_point wake_at() const;
  // Flights of which something changed since the last call.
  std::vector<Id> take_changes() { return std::exchange(changes_, {}); }

  bool knows(Id id) const { return flights_.contains(id); }
  State state(Id id) const { return at(id).state; }
  // Nothing while it is under way. There may be one before it is over: then it is still to be recorded.
  const std::optional<Result<OnceOutcome>>& outcome(Id id) const { return at(id).outcome; }
  const std::string& name(Id id) const { return at(id).name; }
  const std::string& attempt(Id id) const { return at(id).attempt; }
  // The last thing that went wrong on the way to Redis, while it has not answered.
  const std::optional<Error>& problem(Id id) const { return at(id).problem; }
  // Of who works; zero while Redis has not granted it (optimistic).
  FencingToken token(Id id) const { return at(id).has_claim ? at(id).token : FencingToken{}; }
  Clock::time_point deadline(Id id) const { return deadline(at(id)); }
  const std::optional<OnceRecord>& record(Id id) const { return at(id).record; }
  const std::optional<OnceEarlier>& earlier(Id id) const { return at(id).earlier; }
  bool has_noted(Id id, std::uint64_t number) const { return at(id).note_confirmed >= number; }
  std::string_view why_stopped(Id id) const;

  // Questions that are no flights: the keys and arguments of one run of the script.
  Request to_get(const std::string& name) const;
  Request to_replace(const OnceRecord& record, const OnceLeft& left);
  Request to_refresh(const OnceRecord& record) const;

  // Errc::invalid.
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

    std::uint64_t request = 0;  // under way
    bool asks_again = false;    // what is under way may be answered with what is no longer so
    Clock::time_point next{};   // when to ask, look, renew or settle
    Clock::time_point timer{};  // as it stands in timers_
    Clock::time_point silent_since{};  // while asking or settling: no answer since then
    std::optional<Error> problem{};
    FencingToken seen{};       // the newest that an answer showed: an older message was slow
    FencingToken joined{};     // the first creation that it saw, its own or somebody else's
    FencingToken waits_for{};  // the step of somebody else
    std::string waits_for_status{};

    bool has_claim = false;
    FencingToken token{};
    Clock::time_point confirmed{};  // the server had the claim then, or later
    Clock::time_point began{};      // to work, or to settle
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
