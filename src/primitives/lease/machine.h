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
  std::string key;  // as others know it; without spaces
  // What others read there while we hold it: an id, a JSON text. Let it differ from what other
  // processes show: in a cluster, while a slot moves, only this tells whose the key is.
  std::string value;
  // The key lives so long after each renewal: for keys that others read. Without it, as long as
  // the session.
  std::optional<std::chrono::milliseconds> ttl{};
  // A grant counts only when all known replicas have it, except those that most sentinels consider
  // down. See docs/guarantees.md. Without a ttl it has that of the session, and is renewed by itself.
  bool replicated = false;
  // With a ttl: renewed so often, when that is more often than every third of it.
  std::optional<std::chrono::milliseconds> renew_every{};
  LeaseCondition condition{};  // of who does not wait in line
};

enum class LeaseState { asking, waiting, held, uncertain, ended };
std::string_view name(LeaseState state);

// Where a session has its own key and channel, for a user who may use no others. All of its leases
// are then in the slot of that key, and what is beside a key K is called K:fence and K:queue.
struct LeaseRoom {
  std::string keys;      // "{c1}:"
  std::string channels;  // "foghorn:{c1}:"
};

struct SessionTerms {
  std::string holder;  // new at every process start, never reused
  std::chrono::milliseconds ttl = 15s;
  // Then no lease depends on a key beside its own, which may be on another server while a slot
  // moves: each has a ttl, that of the session or its own, and is renewed by itself.
  bool is_cluster = false;
  std::optional<LeaseRoom> room{};
};

using LeaseId = std::uint64_t;

// Mistakes that tests plant, to see that they are found.
struct LeaseFlaws {
  bool deadline_from_reply = false;  // instead of from before the request left
  bool blind_release = false;        // deletes the key without asking whose it is
  bool ignores_gap = false;          // does not ask again when a grant may have been missed
  bool unshown_claim = false;        // believes the fence alone, while a slot moves
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
  // A resource refused this token. The lease is over, unless the token is no longer its own: a renewal
  // that is under way may have raised it at the server already, so that its answer is awaited first.
  // Either way take_changes() tells.
  void on_fenced(LeaseId id, FencingToken shown);

  std::optional<Request> next_request();
  // Call on_time by then.
  Clock::time_point wake_at() const;
  // Leases whose state or token changed, or that are no longer known, since the last call.
  std::vector<LeaseId> take_changes();
  // Releases that the server refused for good, since the last call. Such a lease ends by itself.
  std::vector<std::pair<LeaseId, Error>> take_refusals();
  // To be subscribed to; grows in a cluster.
  const std::set<std::string>& grant_channels() const { return channels_; }

  // Until its end was told to the server, after leave().
  bool knows(LeaseId id) const { return leases_.contains(id); }
  bool is_left(LeaseId id) const { return at(id).is_left; }
  LeaseState state(LeaseId id) const { return at(id).state; }
  // While it is held or uncertain: until then nobody else is granted it.
  Clock::time_point deadline(LeaseId id) const { return deadline(at(id)); }
  // on_time() was not called in time.
  bool is_past_deadline(LeaseId id, Clock::time_point now) const {
    return is_held(at(id)) && now >= deadline(id);
  }
  FencingToken token(LeaseId id) const { return at(id).token; }
  const LeaseTerms& terms(LeaseId id) const { return at(id).terms; }
  // After leave(): why it could not be given back yet.
  const Error& why_ended(LeaseId id) const { return at(id).why; }
  const std::string& fence_key(LeaseId id) const { return at(id).fence; }
  // Where the last token of a lease is written down.
  static std::string fence_key(const std::string& key);

  struct Counters {
    std::uint64_t granted = 0, refused = 0, renewed = 0, lost = 0;
  };
  const Counters& counters() const { return counters_; }
  std::size_t leases() const { return leases_.size(); }
  // Nothing when the server has none.
  std::optional<std::string> live_session() const;

  // How long a deadline is ahead of a request: less than the ttl, since clocks differ.
  static Clock::duration trusted(Clock::duration ttl) { return ttl - ttl / 100 - 5ms; }

 private:
  // A key that lives while the process does; the leases refer to it.
  struct Session {
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
    std::string fence, queue, channel;
    std::uint64_t generation = 0;  // of the session that keeps it, as the server has it
    std::string queued_under;      // by which it was last seen in line, or -
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
    std::optional<FencingToken> fenced{};  // was refused while a request was under way
    Clock::duration release_time = 1s;     // for the next answer to its release
    // The last refusal: when we asked, and what the server's clock said then.
    Clock::time_point asked{};
    std::int64_t server_us = 0;
  };
  struct Flight {
    enum class About { lease, session, kept, nothing } about = About::nothing;
    LeaseId lease = 0;
    std::uint64_t generation = 0;  // of the session, when it was sent
    Clock::time_point sent{};
    bool is_renewal = false;
    bool is_release = false;
    std::vector<LeaseId> kept{};  // whose keys are looked at
  };

  Record& at(LeaseId id) { return leases_.at(id); }
  const Record& at(LeaseId id) const { return leases_.at(id); }
  static bool is_held(const Record& record) {
    return record.state == LeaseState::held || record.state == LeaseState::uncertain;
  }
  bool is_kept_by_session(const Record& record) const {
    return !record.terms.ttl && session_.exists && record.generation == session_.generation;
  }
  // When a renewal should have come at the latest.
  Clock::time_point overdue(const Record& record) const {
    return record.confirmed + 2 * ttl(record) / 3;
  }
  bool needs_session(const Record& record) const {
    return !terms_.is_cluster && (!record.terms.ttl || record.waits);
  }
  Clock::duration ttl(const Record& record) const;
  Clock::time_point deadline(const Record& record) const;
  std::string own_name(const std::string& room, std::string_view kind) const;
  std::string session_key() const { return session_key(session_.generation); }
  std::string session_key(std::uint64_t generation) const;
  std::string waiting_name(const Record& record) const;
  std::string waits_until(const Record& record, Clock::duration time) const;
  std::string attempt(LeaseId id) const;

  void ask(LeaseId id, Record& record, Clock::time_point now);
  void ask_soon(LeaseId id, Record& record, Clock::time_point now);
  void renew_session(Clock::time_point now);
  void look_at_kept(Clock::time_point now);
  void on_seen(const Flight& flight, const Result<redis::Reply>& reply, Clock::time_point now);
  void send(Request request, Flight flight);
  void on_session_reply(const Flight& flight, const Result<redis::Reply>& reply,
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
  void settle_fenced(LeaseId id);
  void update(LeaseId id, Record& record, Clock::time_point now);
  void update_session(Clock::time_point now);
  void lose_session(Clock::time_point now);
  void replace_session(Clock::time_point now);
  void abandon(LeaseId id, Record& record, const Error& why, Clock::time_point now);
  void delete_replaced(Clock::time_point now);
  void end(LeaseId id, Record& record, Error why);
  void set(LeaseId id, Record& record, LeaseState state);
  void set_held(LeaseId id, Record& record, Clock::time_point now);
  bool is_held_up(LeaseId id, const Record& record);
  void erase(LeaseId id, Clock::time_point now);
  void set_timer(LeaseId id, Record& record, Clock::time_point time);
  template <class Action>
  void for_each(Action action);

  SessionTerms terms_;
  LeaseFlaws flaws_;
  std::uint64_t epoch_ = 0;
  std::uint64_t last_lease_ = 0, last_request_ = 0;
  Session session_;
  std::map<LeaseId, Record> leases_;
  std::map<std::uint64_t, Flight> flights_;
  // In a cluster, by key: how many are being given back, and who asks for it after that.
  struct Returning {
    std::size_t leases = 0;
    std::set<LeaseId> held_up{};
  };
  std::map<std::string, Returning> returning_;
  std::set<std::pair<Clock::time_point, LeaseId>> timers_;
  std::deque<Request> requests_;
  std::vector<LeaseId> changes_;
  std::vector<std::pair<LeaseId, Error>> refusals_;
  std::set<std::string> channels_;
  Counters counters_;
};

}  // namespace warren
