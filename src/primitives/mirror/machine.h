#pragma once
// The protocol of a mirror without a socket: facts in, intentions out. The simulator and the real
// client drive this same code.
//
//        on_subscribed     tail known        all keys read       end of the log
//   cold ------> subscribed ------> snapshot ------> catch_up ------> tailing
//                    ^                                  ^  |             |
//                    |                 a push is missing|  |log trimmed, |history rewritten
//                    +------- resync <------------------|--+-------------+
//                       (spread, limited)               +----------------+
//
// HOW A READER IS COMPLETE AND NEVER WRONG
//
// Every instance answers from memory, so its copy must have everything, and nothing that is not so.
// The obvious answer, to publish "edge-1 changed" and let every reader GET it, fails in four ways.
//
// 1. A message is lost, and nothing shows it. So every batch is an entry of a *log*, appended by
//    the script that sets the keys. An entry has a stamp that no other entry ever has, and names
//    the stamp of the entry before it. A reader applies an entry only if it follows the last one it
//    applied:
//
//      applied   5-11 a ---> 5-12 b
//      pushed                        (5-13 c, after b: lost)    5-14 d, after c
//
//    5-14 does not follow b, so the log is read after 5-12. Ids alone would not show that: after a
//    failover other batches may get the same ids. Nothing follows a lost *last* message, so the
//    tail is checked every half second. If the log was trimmed too far, everything is read again
//    (resync).
//
// 2. Loading takes seconds, and writes go on: pages read at different times are the state of no
//    moment. So: subscribe, note the tail, read all keys, apply the log after that tail.
//
//      log      ... 5-11 | 5-12   5-13   5-14 |           Every value is at least as new as 5-11.
//                        tail                 end         Later entries carry whole values, so it
//      reads             [--- all keys ------]            does no harm to apply one twice.
//
//    At the end of the log the copy is the state after its last entry. Only then is it shown.
//
// 3. Some changes are in no log: those of older peers, and manual ones. A key that a notification
//    names is fetched together with the tail. The value waits until the log is applied that far,
//    and loses against a newer entry. Deletions during a fetch are remembered, because the value
//    may be older. Changes without any message are found by a slow comparison: one hash per page of
//    keys.
//
// 4. A failover rewrites history: applied entries do not exist on the new primary. The log shows
//    it: its tail lies behind, an id has another stamp, it began with another entry (`born`), or it
//    lacks an acknowledged write of ours. Since the old values are gone, the mirror reports the
//    lost range (HistoryRewritten), for the owner to write again, and reads everything again.
//    Answers to questions from an earlier connection may come from either server, so they are
//    dropped.
//
// So a snapshot is always the state after some entry of the log, with all entries before it and
// none after it, plus what older peers changed since. It only moves forward; where it cannot, the
// loss is reported before anything can read the new state.
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "primitives/mirror/entry.h"
#include "primitives/mirror/outbox.h"
#include "primitives/mirror/slot_place.h"
#include "primitives/mirror/table.h"
#include "primitives/mirror/terms.h"
#include "redis/resp/reply.h"
#include "redis/script.h"

namespace warren {

enum class MirrorPhase { cold, subscribed, snapshot, catch_up, tailing, resync };

// A failover lost changes that were readable here. A program that wrote them or acted on them may
// want to write them again.
struct HistoryRewritten {
  Version after;  // the last change that still stands, as far as the log tells
  Version until;  // the last change that was seen
  bool certain;   // false: the log is too short to tell whether anything was lost
};

struct MirrorCounters {
  std::uint64_t applied = 0;        // entries, in order
  std::uint64_t pushed = 0;         // of these: came by push, or were our own
  std::uint64_t catch_ups = 0;      // how often the log had to be read
  std::uint64_t snapshots = 0;      // how often everything was read
  std::uint64_t rewrites = 0;       // of history
  std::uint64_t notifications = 0;  // from older peers
  std::uint64_t repairs = 0;        // entities whose value in Redis differed from the log's
  std::uint64_t malformed = 0;      // messages and entries that could not be parsed
  std::uint64_t writes = 0;         // batches in the log
  std::uint64_t write_retries = 0;
  std::uint64_t refused_writes = 0;  // permanently
};

namespace mirror {

// What has become of a change that Redis acknowledged.
enum class Fate { awaited, applied, lost, unknown };

// Mistakes that tests plant to check that they would be found.
struct Flaws {
  bool ignores_gaps = false;       // in the subscription
  bool tolerates_one_gap = false;  // in the chain of entries
  bool tolerates_own_gap = false;  // before an entry of our own
  bool takes_older = false;        // fetched values over newer ones
  bool skips_deletes = false;      // while loading
  bool reorders_retries = false;   // sends the next batch before the failed one
  bool never_checks_tail = false;
  bool understates_age = false;  // counts it from the answer, not from the question
  bool ignores_target = false;   // loads only from the server that a slot leaves
  bool ignores_moves = false;    // does not check whether a slot moved during a load
};

struct Request {
  enum class Kind { write, tail, catch_up, probe, place, scan, load, fetch, digest };
  Kind kind;
  // The answer may be large. While it may still arrive, it is not requested again.
  bool is_bulk() const { return kind != Kind::write && kind != Kind::tail; }
  const redis::Script* script = nullptr;  // null: `words` is the command
  std::vector<std::string> words;         // keys of the script, or the command
  std::vector<std::string> args;          // of the script
  std::string server = {};  // of a cluster, "10.0.0.2:6379"; empty: the one that has the keys
  // For the machine, which gets these back with the answer:
  std::uint64_t run = 0;
  Clock::time_point sent_at = {};
  Version position = {};
  std::size_t bytes = 0;  // the answer's maximum size, as far as it can be counted
  std::uint64_t connection = 0, round = 0;
};

// How many bytes to request at once, so that an answer takes a moment however slow the link is.
class Pace {
 public:
  std::size_t bytes() const { return bytes_; }
  // The number of requests whose answers may be under way at the same time.
  int flights() const { return bytes_ < few_bytes ? 1 : most_flights; }
  // The answer to a request for that many bytes took this long, or failed after that. Full: there
  // is more.
  void on_answer(std::size_t asked, Clock::duration took, bool is_full);

  static constexpr std::size_t first_bytes = 256u << 10;
  static constexpr std::size_t least_bytes = 16u << 10, most_bytes = 2u << 20;

 private:
  static constexpr std::size_t few_bytes = 64u << 10;
  static constexpr int most_flights = 4;
  std::size_t bytes_ = first_bytes;
};

class Machine {
 public:
  // `random` returns numbers in [0, 1).
  Machine(MirrorTerms terms, std::string writer, std::function<double()> random, Flaws flaws = {});
  // Call before anything else if slots may move from one server to another.
  void expect_moves() { is_clustered_ = true; }

  // From now on, a published message is either received or reported as missed by on_gap.
  void on_subscribed(Clock::time_point now);
  void on_gap(Clock::time_point now);
  // The server may be another one than before, with another history.
  void on_connected(Clock::time_point now, std::uint64_t epoch);
  void on_message(Clock::time_point now, std::string_view channel, std::string_view payload);
  void on_reply(Clock::time_point now, Request request, Result<redis::Reply> reply);
  Result<std::shared_ptr<Receipt>> put(Batch batch) { return outbox_.put(std::move(batch)); }
  // Stops all writing, and reports the error to every waiting caller.
  void abandon(const Error& error) { outbox_.abandon(error); }

  // Returns the next request to send, if any: call it until it returns nullopt. The requests of one
  // machine are sent in this order, and each is answered once.
  std::optional<Request> next(Clock::time_point now);
  // Call next() no later than this, and after each fact.
  Clock::time_point wake_at() const;

  // Makes what was applied visible. A snapshot never changes, so readers may keep it.
  void publish();
  const std::shared_ptr<Snapshot>& snapshot() const { return published_; }
  std::vector<HistoryRewritten> take_rewrites() { return std::exchange(rewrites_, {}); }

  Fate fate_of(Version version) const;

  const MirrorTerms& terms() const { return terms_; }
  MirrorPhase phase() const { return phase_; }
  bool is_ready() const { return ready_; }  // has been complete at least once
  const Position& position() const { return position_; }
  // When Redis last answered, or when the machine started.
  Clock::time_point heard_at() const { return heard_at_; }
  // Since when Redis has taken no writes. Returns nullopt if it takes them, as far as we know.
  std::optional<Clock::time_point> blocked_since() const { return blocked_since_; }
  const Outbox& outbox() const { return outbox_; }
  const MirrorCounters& counters() const { return counters_; }

 private:
  struct Fetched {
    Position at;
    std::vector<std::string> keys;     // from the second on; the first is the head
    std::vector<redis::Reply> values;  // from the second on; the first is the tail
    Version since;                     // the values were read between this and `at`
  };
  // A value that was read alone, because the head may be on another server.
  struct Unplaced {
    Fetched fetched;
    Clock::time_point answered_at;
  };
  struct Own {
    Version first;  // stands for all our entries from here on, of the same connection
    Position at;
    std::uint64_t connection;
    Clock::time_point told_at;
  };
  struct Check {
    Position tail;
    Clock::time_point sent_at;
  };
  struct LogPage {
    Version target;  // what the reader aimed for when it asked
    std::vector<redis::Reply> entries;
    bool is_last;
  };

  std::optional<Request> next_write(Clock::time_point now);
  std::optional<Request> next_tail(Clock::time_point now);
  std::optional<Request> next_load(Clock::time_point now);
  bool can_scan() const;
  bool can_load() const;
  bool must_ask_place() const;
  int most_fetches(bool one_by_one) const { return pace_.flights() * (one_by_one ? 4 : 1); }
  std::optional<Request> next_log(Clock::time_point now);
  std::optional<Request> next_fetch(Clock::time_point now);
  std::optional<Request> next_compare(Clock::time_point now);
  Request ask(Clock::time_point now, Request::Kind kind, std::vector<std::string> words) const;
  Request ask_log(Clock::time_point now, Version after);
  bool can_ask_plainly() const { return pace_.bytes() >= Pace::first_bytes; }
  Request ask_place(Clock::time_point now);
  enum class By { script, plain };
  Request ask_values(Clock::time_point now, Request::Kind kind, std::vector<std::string> keys,
                     By how);
  bool expects_little(std::size_t values) const;
  std::vector<std::string> take_compared();
  bool is_loaded() const;
  Request ask_scan(Clock::time_point now, std::size_t count);

  void on_write_reply(Clock::time_point now, Request request, const Result<redis::Reply>& reply);
  void on_failure(Clock::time_point now, Request request, const Error& error);
  void ask_again(Request request);
  void on_split(Clock::time_point now, Request request);
  void on_tail(Clock::time_point now, const Request& request, const redis::Reply& reply);
  void on_log(Clock::time_point now, const Request& request, redis::Reply reply);
  void apply_page(Clock::time_point now, LogPage page);
  void on_probe(Clock::time_point now, const redis::Reply& reply);
  void on_place(Clock::time_point now, const redis::Reply& reply);
  void on_scan(Clock::time_point now, const redis::Reply& reply);
  void on_loaded(Clock::time_point now, Request request, const redis::Reply& reply);
  void on_fetched(Clock::time_point now, Request request, redis::Reply reply);
  void on_digest(const Request& request, const redis::Reply& reply);

  void on_own(Clock::time_point now, Entry entry);
  void free_place(Version version);
  void forget_own();
  void expect_own(const Position& at);
  void miss_own(Version tail, Clock::time_point asked_at);
  void take(Clock::time_point now, Entry entry);
  void fetch_foreign(const Entry& entry);
  void hold(Entry entry);
  bool follows(const Entry& entry) const;
  void apply(const Entry& entry);
  void begin_load(Clock::time_point now);
  void begin_catch_up();
  void finish_catch_up(Clock::time_point now);
  void begin_resync(Clock::time_point now);
  void lost_behind(Clock::time_point now, const Position& tail);
  void rewritten(Clock::time_point now, Version after);
  void tell_rewrite(Version after, Version until, bool certain);
  void tell_shown(Version after, bool certain);
  void leave_shown();
  void compare_with_shown();
  void expect_tail(Position tail, Clock::time_point asked_at);
  void reach(Clock::time_point now, Version target);
  void confirm();
  bool is_born_otherwise(const Tail& tail) const;
  std::optional<bool> has(const Position& at) const;
  Version newest_before(Version version) const;
  void restart_compare(Clock::time_point when);
  void end_compare(Clock::time_point now);
  Clock::duration compare_rest() const { return 100 * terms_.compare_pause; }  // between rounds

  struct Name {
    std::size_t type;
    std::string_view id;
  };
  std::optional<Name> name_of(std::string_view key) const;  // without the prefix
  std::optional<Name> name_of_whole(std::string_view key) const;
  const Entity* find(const Name& name) const { return tables_[name.type].find(name.id); }
  void set(const Name& name, std::string_view stored, Version version);
  void erase(const Name& name, Version version);
  void apply_fetched(Fetched fetched);
  void apply_fetched(const std::string& key, const redis::Reply& value, const Fetched& from);
  void take_fetched(Clock::time_point now, Fetched fetched);
  void place_fetched(Clock::time_point now, Clock::time_point asked_at, const Position& tail);
  void fetch_again(Fetched fetched);
  bool has_fetches() const;
  void mark_dirty(std::string key);

  MirrorTerms terms_;
  std::string pattern_;
  std::function<double()> random_;
  Flaws flaws_;
  bool is_clustered_ = false;
  Outbox outbox_;
  std::optional<Entry> written_;  // our own, waiting to be applied
  std::uint64_t written_on_ = 0;  // the connection of that write
  std::uint64_t epoch_ = 0;
  // Incremented when the server may be another one. The answer to an earlier question may come from
  // either server, so it proves nothing about either.
  std::uint64_t connection_ = 1;

  MirrorPhase phase_ = MirrorPhase::cold;
  bool loading_ = true;  // readers may not see tables_
  bool ready_ = false;
  std::optional<Version> told_;  // history was rewritten after this, in what readers see
  std::uint64_t run_ = 0;        // drops answers to questions from before a fresh start
  Position position_;            // of the last entry in tables_
  std::string born_;             // stamp of the first entry of its history
  Version common_;               // the newest entry in tables_ that the server is known to have
  // logged_: the last entry of the log when it was read. dead_: entries up to here belong to no
  // history, because the head was deleted after them.
  Version logged_, dead_;
  std::string shown_born_;  // the same for what readers see, while loading_
  Version shown_common_;
  Version left_;    // the last entry applied to what readers see
  Version target_;  // the newest entry that Redis is known to have
  Clock::time_point behind_until_ = Clock::time_point::max();  // after this the log is read
  std::deque<Position> recent_;  // the last entries applied, beginning with the tail of the load
  bool diverged_ = false;        // Redis has an entry that is not part of our history
  std::vector<Own> own_;         // our writes, not yet known to be in this history
  std::deque<Check> checks_;     // tails that have not been reached yet
  Clock::time_point heard_at_{}, resync_at_{}, loaded_at_{};

  std::vector<Table> tables_;
  std::uint64_t edit_ = 1;
  bool changed_ = false;
  std::shared_ptr<Snapshot> published_;  // shared with readers
  Clock::time_point fresh_at_{};

  std::deque<Entry> held_;  // pushes that cannot be applied yet
  std::size_t held_bytes_ = 0;

  // Requests under way: at most one of each kind, except fetches. A bulk request counts
  // until its answer comes, even after a fresh start: asking again while the first answer waits in
  // Redis would fill its memory.
  bool writes_ = false, asks_tail_ = false, asks_log_ = false, asks_page_ = false;
  bool must_probe_ = false;
  int fetches_ = 0, own_fetches_ = 0;  // all, and those of this run
  Pace pace_;
  // A script that counts bytes costs Redis several times as much as a plain command. So a plain
  // command is used where the answer cannot be large. Values come in random order, so those already
  // read tell what the others are like; and a small log has no large page.
  std::size_t loaded_values_ = 0, loaded_bytes_ = 0;
  int plain_log_pages_ = 0;
  std::optional<LogPage> log_page_;  // applied while Redis prepares the next page
  Clock::time_point write_at_{}, tail_at_{}, retry_at_{};
  int write_failures_ = 0, failures_ = 0;
  std::optional<Clock::time_point> blocked_since_;

  // Reading all keys, for a load or for the comparison.
  bool asks_place_ = false;
  std::optional<SlotPlace> place_;  // when it began; only in a cluster
  bool scans_target_ = false;       // the owner has been scanned and the slot moves: now the target
  std::string cursor_ = "0";
  bool scanned_ = false;
  std::deque<std::vector<std::string>> pages_;
  std::uint64_t round_ = 0;  // answers that belong to an earlier round are dropped
  bool compares_ = false;
  Version compared_from_;
  bool hurries_ = false;  // older peers' notifications may have been missed
  Clock::time_point compare_at_{};
  std::unordered_set<std::size_t> seen_;  // hashes of keys

  std::deque<std::string> dirty_order_;  // keys to fetch
  std::unordered_set<std::string> dirty_;
  std::deque<Fetched> parked_;            // read at a place in the log that is not reached yet
  std::vector<Unplaced> unplaced_;        // read, but at an unknown place: a later tail will tell
  Clock::time_point one_by_one_until_{};  // the slot moves: two keys may be on two servers
  // Keys deleted while a fetch was under way, which may return a value from before. Deletions up to
  // the floor are no longer listed: a value read before it is fetched again.
  std::unordered_map<std::string, Version> gone_;
  Version gone_floor_;

  std::vector<HistoryRewritten> rewrites_;
  std::deque<HistoryRewritten> lost_;  // the last of rewrites_
  MirrorCounters counters_;
};

}  // namespace mirror
}  // namespace warren
