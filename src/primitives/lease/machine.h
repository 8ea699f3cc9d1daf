#pragma once
// The lease protocol without a socket: facts in, intentions out. The simulator and Session drive
// this same code.
//
//   begin() ──▶ asking ──▶ waiting ──▶ held ◀──▶ uncertain ──▶ ended (why)
//                  └─────────────────────▲       a renewal is overdue: the lease
//                                                may still be ours, and may not
//
// One machine serves one process: any number of leases, and one session that keeps them alive. A
// lease with a ttl of its own is renewed by itself; the others live as long as the session.
//
// A deadline counts from before the request left, less the drift that two clocks may have. So
// whatever delayed the request or its answer, the server lets go later than we do.
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "primitives/lease/token.h"
#include "redis/resp/reply.h"
#include "redis/script.h"

namespace warren {

// Something that must hold for a lease to be granted, or must happen together with the grant: a
// script made by conditional_lease(), with what it needs besides the lease.
struct LeaseCondition {
  const redis::Script* script = nullptr;
  std::vector<std::string> keys, args;
};

struct LeaseTerms {
  std::string key;    // as others know it; without spaces
  std::string value;  // what others read there while we hold it: an id, a JSON text
  // The key lives so long after each renewal: for keys that others read. Without it, as long as
  // the session.
  std::optional<std::chrono::milliseconds> ttl{};
  // Only a grant that all known replicas have counts. See docs/guarantees.md.
  bool replicated = false;
  // With a ttl: renewed so often, when that is more often than every third of it.
  std::optional<std::chrono::milliseconds> renew_every{};
  LeaseCondition condition{};  // of who does not wait in line
};

enum class LeaseState { asking, waiting, held, uncertain, ended };
std::string_view name(LeaseState state);

// Where a session has its own key and channel, for a user who may use no others. All of its leases
// are then in the slot of that key.
struct LeaseRoom {
  std::string keys;      // "{c1}:"
  std::string channels;  // "foghorn:{c1}:"
};

struct SessionTerms {
  std::string holder;  // new at every process start, never reused
  std::chrono::milliseconds ttl = 15s;
  bool is_cluster = false;  // then each hash tag has a session of its own
  std::optional<LeaseRoom> room{};
};

using LeaseId = std::uint64_t;

// Mistakes that tests plant, to see that they are found.
struct LeaseFlaws {
  bool deadline_from_reply = false;  // instead of from before the request left
  bool blind_release = false;        // deletes the key without asking whose it is
  bool ignores_gap = false;          // does not ask again when a grant may have been missed
};

class LeaseMachine {
 public:
  // What to send. All of them may be sent twice.
  struct Request {
    std::uint64_t id = 0;
    // Of the script, or of scripts::lease when it is null; without keys: args are a command.
    const redis::Script* script = nullptr;
    std::vector<std::string> keys, args;
    Clock::time_point deadline{};
    bool replicated = false;  // tell how many replicas have it
    bool is_renewal = false;
  };

  explicit LeaseMachine(SessionTerms terms, LeaseFlaws flaws = {});

  // Asks for a lease; in line and until the deadline, or at once. Errc::invalid: the terms.
  Result<LeaseId> begin(LeaseTerms terms, bool waits, Clock::time_point deadline,
                        Clock::time_point now);
  // Gives the lease back, or leaves the line.
  void leave(LeaseId id, Clock::time_point now);
  // What others read from the next renewal on.
  void show(LeaseId id, std::string value);

  void on_reply(std::uint64_t request, Result<redis::Reply> reply, bool has_all_replicas,
                Clock::time_point now);
  // A message on grant_channels().
  void on_grant(const std::string& message, Clock::time_point now);
  // Grants may have been missed.
  void on_gap(Clock::time_point now);
  // There is a new connection, or another primary. What was granted there may be gone, and what was
  // given back may be granted again: so the session takes a new name, and only what we still want
  // moves with it.
  void on_connected(std::uint64_t epoch, Clock::time_point now);
  void on_time(Clock::time_point now);
  // A resource refused the token of this lease.
  void on_fenced(LeaseId id);

  std::optional<Request> next_request();
  // Call on_time by then.
  Clock::time_point wake_at() const;
  // Leases whose state or token changed, or that are no longer known, since the last call.
  std::vector<LeaseId> take_changes();
  // To be subscribed to; grows in a cluster.
  const std::set<std::string>& grant_channels() const { return channels_; }

  // Until its end was told to the server, after leave().
  bool knows(LeaseId id) const { return leases_.contains(id); }
  bool is_left(LeaseId id) const { return at(id).is_left; }
  LeaseState state(LeaseId id) const { return at(id).state; }
  // While it is held or uncertain: until then nobody else is granted it.
  Clock::time_point deadline(LeaseId id) const { return deadline(at(id)); }
  FencingToken token(LeaseId id) const { return at(id).token; }
  const LeaseTerms& terms(LeaseId id) const { return at(id).terms; }
  const Error& why_ended(LeaseId id) const { return at(id).why; }
  const std::string& fence_key(LeaseId id) const { return at(id).fence; }
  // Where the last token of a lease is written down.
  static std::string fence_key(const std::string& key);

  struct Counters {
    std::uint64_t granted = 0, refused = 0, renewed = 0, lost = 0;
  };
  const Counters& counters() const { return counters_; }
  std::size_t leases() const { return leases_.size(); }
  std::vector<std::string> session_keys() const;

  // How long a deadline is ahead of a request: less than the ttl, since clocks differ.
  static Clock::duration trusted(Clock::duration ttl) { return ttl - ttl / 100 - 5ms; }

 private:
  // A key that lives while the process does; the leases of one slot refer to it.
  struct Session {
    std::string tag;
    std::uint64_t generation = 1;  // a session that was lost never comes back under its name
    std::string replaced;          // the key of the one before, to be deleted when nothing needs it
    bool exists = false;           // the server said so
    bool is_late = false;          // a renewal is overdue
    std::uint64_t request = 0;     // under way
    Clock::time_point confirmed{}, next{};
  };
  struct Record {
    LeaseTerms terms;
    // The value that the server has, and the one that it was last asked to have. While the two
    // differ the server may have either, so no third one is offered.
    std::string shown, offered;
    std::string fence, queue;
    Session* session = nullptr;
    std::uint64_t generation = 0;  // of the session that keeps it, as the server has it
    std::string queued_under;      // the session with which it was last seen in line, or -
    bool waits = false;
    Clock::time_point patience{};  // until when to ask
    LeaseState state = LeaseState::asking;
    Error why{Errc::cancelled, "nobody wants it any more"};
    FencingToken token{};
    Clock::time_point confirmed{};  // the server had it then, or later
    Clock::time_point next{};       // when to ask, renew or release
    Clock::time_point timer{};      // as it stands in timers_
    std::uint64_t request = 0;      // under way
    bool asks_again = false;        // what is under way may be answered with what is no longer so
    bool is_doubted = false;        // asked about anew, since the server may have lost it
    bool is_left = false;           // the caller is gone
    bool is_known = false;          // the server may have something of it
    bool is_loose = false;          // a request without an answer may still reach the server
    // The last refusal: when we asked, and what the server's clock said then.
    Clock::time_point asked{};
    std::int64_t server_us = 0;
  };
  struct Flight {
    LeaseId lease = 0;           // 0: of the session
    Session* session = nullptr;  // the one that it was sent under; null: nobody needs the answer
    std::uint64_t generation = 0;
    Clock::time_point sent{};
    bool is_renewal = false;
    bool is_release = false;
  };

  Record& at(LeaseId id) { return leases_.at(id); }
  const Record& at(LeaseId id) const { return leases_.at(id); }
  static bool is_held(const Record& record) {
    return record.state == LeaseState::held || record.state == LeaseState::uncertain;
  }
  bool is_kept_by_session(const Record& record) const {
    return !record.terms.ttl && record.session->exists &&
           record.generation == record.session->generation;
  }
  // When a renewal should have come at the latest.
  Clock::time_point overdue(const Record& record) const {
    return record.confirmed + 2 * ttl(record) / 3;
  }
  bool needs_session(const Record& record) const { return !record.terms.ttl || record.waits; }
  Clock::duration ttl(const Record& record) const;
  Clock::time_point deadline(const Record& record) const;
  std::string own_name(const Session& session, const std::string& room,
                       std::string_view kind) const;
  std::string session_key(const Session& session) const;
  std::string channel(const Session& session) const;
  std::string attempt(LeaseId id) const;

  void ask(LeaseId id, Record& record, Clock::time_point now);
  void ask_soon(LeaseId id, Record& record, Clock::time_point now);
  void renew(Session& session, Clock::time_point now);
  void send(Request request, Flight flight);
  void on_session_reply(Session& session, const Flight& flight, const Result<redis::Reply>& reply,
                        Clock::time_point now);
  void on_lease_reply(LeaseId id, Record& record, const Flight& flight,
                      const Result<redis::Reply>& reply, bool has_all_replicas,
                      Clock::time_point now);
  void on_failed(LeaseId id, Record& record, const Flight& flight, const Error& error,
                 Clock::time_point now);
  void on_refused(LeaseId id, Record& record, const Flight& flight, const redis::Reply& reply,
                  Clock::time_point now);
  void on_granted(LeaseId id, Record& record, FencingToken token, Clock::time_point since,
                  Clock::time_point now);
  void update(LeaseId id, Record& record, Clock::time_point now);
  void update(Session& session, Clock::time_point now);
  void lose(Session& session, Clock::time_point now);
  void replace(Session& session, Clock::time_point now);
  void delete_replaced(Session& session, Clock::time_point now);
  void end(LeaseId id, Record& record, Errc code, std::string why);
  void set(LeaseId id, Record& record, LeaseState state);
  void set_held(LeaseId id, Record& record, Clock::time_point now);
  void erase(LeaseId id);
  void set_timer(LeaseId id, Record& record, Clock::time_point time);
  template <class Action>
  void for_each_of(Session& session, Action action);

  SessionTerms terms_;
  LeaseFlaws flaws_;
  std::uint64_t epoch_ = 0;
  std::uint64_t last_lease_ = 0, last_request_ = 0;
  std::map<std::string, Session> sessions_;  // by hash tag; outside of a cluster there is one
  std::map<LeaseId, Record> leases_;
  std::map<std::uint64_t, Flight> flights_;
  std::set<std::pair<Clock::time_point, LeaseId>> timers_;
  std::deque<Request> requests_;
  std::vector<LeaseId> changes_;
  std::set<std::string> channels_;
  Counters counters_;
};

}  // namespace warren
