#pragma once
// The lease protocol without a socket: facts in, intentions out. The simulator and LeaseSession
// drive this same code.
//
//   begin() ──▶ asking ──▶ waiting ──▶ held ◀──▶ uncertain ──▶ ended (why)
//                  └─────────────────────▲       a renewal is overdue: the lease
//                                                may or may not still be ours
//
// One machine serves one process: any number of leases, and one session that keeps them alive. A
// lease with a ttl of its own is renewed separately; the others live as long as the session.
//
// WHY A KEY THAT EXPIRES IS NOT ENOUGH
//
// At most one process at a time is to do a job. The obvious answer is SET K alice NX PX 15000,
// repeated every few seconds: if alice dies, K expires and the next process takes over. Four things
// go wrong.
//
// 1. A holder that stalls does not notice. Alice checks that K is hers, stalls (paging, a suspended
//    virtual machine), and writes after bob was granted K. No clock and no check can prevent that,
//    because the stall may come between the check and the write. So every grant carries a *token*
//    that only grows, every guarded write shows it, and Redis refuses a token older than the newest
//    it has seen (fence.lua). A longer ttl makes the accident rarer, not safer.
//
// 2. The answer says less than it seems to: not when the ttl began.
//
//      alice   t --- renew -->       <-- ok --- a
//      redis             r ============= ttl ============> e
//      right   t ====== ttl, less drift ======> d
//      wrong                                    a ============= ttl ============> x
//
//    Redis counts the ttl from r, when it runs the command, and lets go at e. Alice knows only t,
//    when the request left, and a, when the answer arrived; r is anywhere between the two. Counted
//    from a the lease would end at x, after Redis may have granted it to bob. Counted from t, less
//    the drift between two clocks, the deadline d is always before e: whatever delays the request
//    or its answer, Redis lets go later than we do.
//
// 3. Many leases mean many renewals. So a process has one *session*: a key of its own, renewed
//    every third of its ttl. A lease without a ttl names its session in the fence and ends with it.
//    One command keeps ten thousand leases alive, and a waiter whose session is gone is skipped in
//    line.
//
// 4. A failover loses acknowledged writes. A lost *grant* is easy: the new primary, asked about the
//    lease, does not have it, and it ends. A lost *release* is worse: there the lease still belongs
//    to our session, and our renewals would keep it alive although nothing uses it. So after every
//    new connection or primary the session is *replaced*: it takes a new name, each lease that is
//    still wanted moves to that with its next request, and then the old session's key is deleted.
//    Whatever still hangs on it ends, the lease whose release was lost included. If the deletion is
//    lost too, the old session expires unrenewed. An answer from before the replacement proves
//    nothing, so the machine asks again.
//
// A release without an answer is sent again: every request may run twice. One that the server
// forbids (an ACL) is abandoned: a lease with a ttl expires, and for any other the session is
// replaced.
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

// Something that must hold when a lease is granted, or must happen together with the grant: a
// script made by conditional_lease(), with the keys and arguments it needs besides those of the
// lease.
struct LeaseCondition {
  const redis::Script* script = nullptr;
  std::vector<std::string> keys, args;
};

struct LeaseTerms {
  std::string key;  // as other processes know it; contains no spaces
  // What others read in the key while we hold it: an id, a JSON text. Make it different from what
  // other processes show: while a slot of a cluster moves, only this value tells whose key it is.
  std::string value;
  // The key's lifetime after each renewal, for keys that others read. Without it the key lives as
  // long as the session.
  std::optional<std::chrono::milliseconds> ttl{};
  // A grant counts only when all known replicas have it, except those that most sentinels consider
  // down, see docs/guarantees.md. Such a lease is renewed separately; without a ttl it gets that of
  // the session.
  bool replicated = false;
  // The renewal interval of a lease with a ttl, if it is shorter than a third of that ttl.
  std::optional<std::chrono::milliseconds> renew_every{};
  LeaseCondition condition{};  // only for a request that does not wait in line
};

enum class LeaseState { asking, waiting, held, uncertain, ended };
std::string_view name(LeaseState state);

// Where a session keeps its own key and channel, for a user that may use no others. All its leases
// are then in the slot of that key, and the keys next to a lease key K are called K:fence and
// K:queue.
struct LeaseRoom {
  std::string keys;      // "{c1}:"
  std::string channels;  // "foghorn:{c1}:"
};

struct SessionTerms {
  std::string holder;  // new at every process start, never reused
  std::chrono::milliseconds ttl = 15s;
  // In a cluster no lease may depend on a second key, since that may be on another server while a
  // slot moves. So every lease has a ttl, its own or that of the session, and is renewed
  // separately.
  bool is_cluster = false;
  std::optional<LeaseRoom> room{};
};

using LeaseId = std::uint64_t;

// Mistakes that tests plant to check that they would be found.
struct LeaseFlaws {
  bool deadline_from_reply = false;  // instead of from before the request was sent
  bool blind_release = false;        // deletes the key without checking whose it is
  bool ignores_gap = false;          // does not ask again when a grant may have been missed
  bool unshown_claim = false;        // believes the fence alone while a slot moves
};

class LeaseMachine {
 public:
  // What to send. Any request may be sent twice.
  struct Request {
    std::uint64_t id = 0;
    // The script to run, or scripts::lease if null. If there are no keys, args are a plain command.
    const redis::Script* script = nullptr;
    std::vector<std::string> keys, args;
    Clock::time_point deadline{};
    bool replicated = false;  // report how many replicas have it
    bool is_renewal = false;
  };

  explicit LeaseMachine(SessionTerms terms, LeaseFlaws flaws = {});

  // Asks for a lease: in line until the deadline, or without waiting in line. Returns Errc::invalid
  // for invalid terms.
  Result<LeaseId> begin(LeaseTerms terms, bool waits, Clock::time_point deadline,
                        Clock::time_point now);
  // Releases the lease, or leaves the line.
  void leave(LeaseId id, Clock::time_point now);
  // Changes what others read, from the next renewal on.
  void show(LeaseId id, std::string value);

  void on_reply(std::uint64_t request, Result<redis::Reply> reply, bool has_all_replicas,
                Clock::time_point now);
  // Takes a message from one of grant_channels().
  void on_grant(const std::string& message, Clock::time_point now);
  // Grants may have been missed.
  void on_gap(Clock::time_point now);
  // There is a new connection, or another primary. Leases granted on the old one may be gone, and
  // leases released there may be granted again. So the session takes a new name, and only what we
  // still want moves to it.
  void on_connected(std::uint64_t epoch, Clock::time_point now);
  void on_time(Clock::time_point now);
  // A resource refused this token. The lease is over, unless its token has changed since: a renewal
  // under way may already have raised it on the server, so the answer to that is awaited first.
  // Either way take_changes() reports the outcome.
  void on_fenced(LeaseId id, FencingToken shown);

  std::optional<Request> next_request();
  // Call on_time() no later than this.
  Clock::time_point wake_at() const;
  // The leases whose state or token has changed, or that were forgotten, since the last call.
  std::vector<LeaseId> take_changes();
  // The releases that the server refused permanently since the last call. Such a lease expires by
  // itself.
  std::vector<std::pair<LeaseId, Error>> take_refusals();
  // The channels to subscribe to. The set grows in a cluster.
  const std::set<std::string>& grant_channels() const { return channels_; }

  // True until leave(), and after that until the server has been told.
  bool knows(LeaseId id) const { return leases_.contains(id); }
  bool is_left(LeaseId id) const { return at(id).is_left; }
  LeaseState state(LeaseId id) const { return at(id).state; }
  // Valid while the lease is held or uncertain: no other process is granted it before then.
  Clock::time_point deadline(LeaseId id) const { return deadline(at(id)); }
  // True if on_time() was not called in time.
  bool is_past_deadline(LeaseId id, Clock::time_point now) const {
    return is_held(at(id)) && now >= deadline(id);
  }
  FencingToken token(LeaseId id) const { return at(id).token; }
  const LeaseTerms& terms(LeaseId id) const { return at(id).terms; }
  // After leave(): why the lease could not be released yet.
  const Error& why_ended(LeaseId id) const { return at(id).why; }
  const std::string& fence_key(LeaseId id) const { return at(id).fence; }
  // The key that records the last token of a lease.
  static std::string fence_key(const std::string& key);

  struct Counters {
    std::uint64_t granted = 0, refused = 0, renewed = 0, lost = 0;
  };
  const Counters& counters() const { return counters_; }
  std::size_t leases() const { return leases_.size(); }
  // Returns nullopt if the server has no session of ours.
  std::optional<std::string> live_session() const;

  // How far a deadline lies ahead of a request: less than the ttl, since clocks differ.
  static Clock::duration trusted(Clock::duration ttl) { return ttl - ttl / 100 - 5ms; }

 private:
  // A key that lives as long as the process; leases refer to it.
  struct Session {
    std::uint64_t generation = 1;  // a lost session never comes back under the same name
    std::string replaced;          // key of the previous session, deleted once nothing needs it
    bool exists = false;           // the server has confirmed it
    bool is_late = false;          // a renewal is overdue
    std::uint64_t request = 0;     // the request under way, or 0
    Clock::time_point confirmed{}, next{};
  };
  struct Record {
    LeaseTerms terms;
    // The value that the server has, and the value it was last asked to have. While they differ the
    // server may have either one, so no third value is offered.
    std::string shown, offered;
    std::string fence, queue, channel;
    std::uint64_t generation = 0;  // of the session that keeps it, as the server knows it
    std::string queued_under;      // the name under which it was last seen in line, or -
    bool waits = false;
    Clock::time_point patience{};  // when to give up asking
    LeaseState state = LeaseState::asking;
    Error why{Errc::cancelled, "nobody wants it any more"};
    FencingToken token{};
    Clock::time_point confirmed{};  // the server granted it then or later
    Clock::time_point next{};       // when to ask, renew or release
    Clock::time_point timer{};      // its entry in timers_
    std::uint64_t request = 0;      // the request under way, or 0
    bool asks_again = false;        // the answer under way may already be outdated
    bool is_doubted = false;        // being confirmed again, since the server may have lost it
    bool is_left = false;           // the caller no longer wants it
    bool is_known = false;          // the server may still know of it
    bool is_loose = false;          // an unanswered request may still reach the server
    std::optional<FencingToken> fenced{};  // the token refused while a request was under way
    Clock::duration release_time = 1s;     // how long to wait for the next answer to its release
    // The last refusal: when we asked, and the server's clock at that time.
    Clock::time_point asked{};
    std::int64_t server_us = 0;
  };
  struct Flight {
    enum class About { lease, session, kept, nothing } about = About::nothing;
    LeaseId lease = 0;
    std::uint64_t generation = 0;  // the session's, when it was sent
    Clock::time_point sent{};
    bool is_renewal = false;
    bool is_release = false;
    std::vector<LeaseId> kept{};  // the leases whose keys are read
  };

  Record& at(LeaseId id) { return leases_.at(id); }
  const Record& at(LeaseId id) const { return leases_.at(id); }
  static bool is_held(const Record& record) {
    return record.state == LeaseState::held || record.state == LeaseState::uncertain;
  }
  bool is_kept_by_session(const Record& record) const {
    return !record.terms.ttl && session_.exists && record.generation == session_.generation;
  }
  // The latest time at which a renewal should have succeeded.
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
  // In a cluster, by key: how many leases are being released, and which ones ask for the key after
  // that.
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
