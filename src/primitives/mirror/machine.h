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
// Every entry says which one it follows. One that does not follow the last applied is never
// applied: the log is read from there. If the log no longer has it, everything is read again.
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

// A failover lost changes that were seen here: whoever acted on them, or wrote them, may want to
// write them again.
struct HistoryRewritten {
  Version after;  // the last one that is still so, as far as the log tells
  Version until;  // the last one that was seen
  bool certain;   // false: the log is too short to tell whether anything was lost
};

struct MirrorCounters {
  std::uint64_t applied = 0;        // entries, in order
  std::uint64_t pushed = 0;         // of them: came by push, or were our own
  std::uint64_t catch_ups = 0;      // times that the log had to be read
  std::uint64_t snapshots = 0;      // times that all was read
  std::uint64_t rewrites = 0;       // of history
  std::uint64_t notifications = 0;  // of older peers
  std::uint64_t repairs = 0;        // entities that Redis had otherwise than the log says
  std::uint64_t malformed = 0;      // messages and entries that nobody could read
  std::uint64_t writes = 0;         // batches in the log
  std::uint64_t write_retries = 0;
  std::uint64_t refused_writes = 0;  // for good
};

namespace mirror {

// Of a change that Redis acknowledged.
enum class Fate { awaited, applied, lost, unknown };

// Mistakes that a test makes on purpose, to see that they would be found.
struct Flaws {
  bool ignores_gaps = false;       // of the subscription
  bool tolerates_one_gap = false;  // in the chain of entries
  bool tolerates_own_gap = false;  // before an entry of our own
  bool takes_older = false;        // fetched values over newer ones
  bool skips_deletes = false;      // while it loads
  bool reorders_retries = false;   // sends the next batch before the one that failed
  bool never_checks_tail = false;
  bool understates_age = false;  // counts it from the answer, not from the question
  bool ignores_target = false;   // loads only from the server that a slot leaves
  bool ignores_moves = false;    // does not look whether a slot moved while it loaded
};

struct Request {
  enum class Kind { write, tail, catch_up, probe, place, scan, load, fetch, digest };
  Kind kind;
  // The answer may be large: it is not asked for again for as long as it may still come.
  bool is_bulk() const { return kind != Kind::write && kind != Kind::tail; }
  const redis::Script* script = nullptr;  // or none: then `words` is the command
  std::vector<std::string> words;         // keys of the script, or the command
  std::vector<std::string> args;          // of the script
  std::string server = {};  // of a cluster, "10.0.0.2:6379"; empty: whichever has the keys
  // For the machine, which gets it back with the answer:
  std::uint64_t run = 0;
  Clock::time_point sent_at = {};
  Version position = {};
  std::size_t bytes = 0;  // that the answer is to have at most, as far as they can be counted
  std::uint64_t connection = 0, round = 0;
};

// How many bytes to ask for at once: so many that an answer takes a moment, however slow the link.
class Pace {
 public:
  std::size_t bytes() const { return bytes_; }
  // Requests whose answers may be under way together.
  int flights() const { return bytes_ < few_bytes ? 1 : most_flights; }
  // An answer to a request for so many bytes took this long, or none came. Full: there is more.
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
  // `random` gives numbers in [0, 1).
  Machine(MirrorTerms terms, std::string writer, std::function<double()> random, Flaws flaws = {});
  // Slots may move from one server to another; to be said before anything else.
  void expect_moves() { is_clustered_ = true; }

  // What is published from now on is not missed without an on_gap.
  void on_subscribed(Clock::time_point now);
  void on_gap(Clock::time_point now);
  // Perhaps to another server than before, which may have another history.
  void on_connected(Clock::time_point now, std::uint64_t epoch);
  void on_message(Clock::time_point now, std::string_view channel, std::string_view payload);
  void on_reply(Clock::time_point now, Request request, Result<redis::Reply> reply);
  Result<std::shared_ptr<Receipt>> put(Batch batch) { return outbox_.put(std::move(batch)); }
  // Nothing is written any more; whoever waits is told.
  void abandon(const Error& error) { outbox_.abandon(error); }

  // What to send now, if anything: ask until there is nothing. Requests of one machine are sent in
  // this order; each is answered once.
  std::optional<Request> next(Clock::time_point now);
  // Ask again by then, and after each fact.
  Clock::time_point wake_at() const;

  // Makes what was applied visible. Whoever reads holds on to a snapshot: it never changes.
  void publish();
  const std::shared_ptr<Snapshot>& snapshot() const { return published_; }
  std::vector<HistoryRewritten> take_rewrites() { return std::exchange(rewrites_, {}); }

  Fate fate_of(Version version) const;

  const MirrorTerms& terms() const { return terms_; }
  MirrorPhase phase() const { return phase_; }
  bool is_ready() const { return ready_; }  // has been complete at least once
  const Position& position() const { return position_; }
  // Redis answered last, or we began.
  Clock::time_point heard_at() const { return heard_at_; }
  // Redis takes no writes since then; none: it does, as far as we know.
  std::optional<Clock::time_point> blocked_since() const { return blocked_since_; }
  const Outbox& outbox() const { return outbox_; }
  const MirrorCounters& counters() const { return counters_; }

 private:
  struct Fetched {
    Position at;
    std::vector<std::string> keys;     // after the first, which is the head
    std::vector<redis::Reply> values;  // after the first, which is the tail
    Version since;                     // the values are from between this and the position
  };
  // Read alone, because the head may be at another server.
  struct Unplaced {
    Fetched fetched;
    Clock::time_point answered_at;
  };
  struct Own {
    Version first;  // it stands for those from here on, of the same connection
    Position at;
    std::uint64_t connection;
    Clock::time_point told_at;
  };
  struct Check {
    Position tail;
    Clock::time_point sent_at;
  };
  struct LogPage {
    Version target;  // when it was asked for
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
  std::optional<Entry> written_;  // our own, to be applied
  std::uint64_t written_on_ = 0;  // connection
  std::uint64_t epoch_ = 0;
  // Grows when the server may be another one: an answer to what was asked before is given by the old
  // one or the new, and proves nothing of either.
  std::uint64_t connection_ = 1;

  MirrorPhase phase_ = MirrorPhase::cold;
  bool loading_ = true;  // tables_ is not what readers may see
  bool ready_ = false;
  std::optional<Version> told_;  // after which the history of what readers see was rewritten
  std::uint64_t run_ = 0;        // answers to what was asked before a new beginning are not for us
  Position position_;            // of the last entry in tables_
  std::string born_;             // how the history began that it is part of
  Version common_;               // the newest in tables_ that the server is known to have
  // The last entry of the log when it was read; and up to where it belongs to nothing, because its
  // head was deleted behind that.
  Version logged_, dead_;
  std::string shown_born_;  // the same of what readers see, while loading_
  Version shown_common_;
  Version left_;                                               // and up to where it was applied
  Version target_;                                             // the newest that Redis told of
  Clock::time_point behind_until_ = Clock::time_point::max();  // then the log is read
  std::deque<Position> recent_;  // the last that were applied, and where the snapshot was taken
  bool diverged_ = false;        // what Redis told of is not part of it
  std::vector<Own> own_;         // written by us, and not known to be part of it
  std::deque<Check> checks_;     // tails that were not reached yet
  Clock::time_point heard_at_{}, resync_at_{}, loaded_at_{};

  std::vector<Table> tables_;
  std::uint64_t edit_ = 1;
  bool changed_ = false;
  std::shared_ptr<Snapshot> published_;  // shared with readers
  Clock::time_point fresh_at_{};

  std::deque<Entry> held_;  // pushes that cannot be applied yet
  std::size_t held_bytes_ = 0;

  // What is asked: at most one of each, but fetches. Bulk answers count until they come, whatever
  // began meanwhile: what is asked for again while the first answer waits in Redis fills its memory.
  bool writes_ = false, asks_tail_ = false, asks_log_ = false, asks_page_ = false;
  bool must_probe_ = false;
  int fetches_ = 0, own_fetches_ = 0;  // all, and those of this run
  Pace pace_;
  // A script that counts bytes costs Redis several times what a plain command does. So it is done
  // without where the answer cannot be large: values come in random order, and those that were
  // read say what the others are like; and a log that is small has no large page.
  std::size_t loaded_values_ = 0, loaded_bytes_ = 0;
  int plain_log_pages_ = 0;
  std::optional<LogPage> log_page_;  // to be applied while Redis looks for the next one
  Clock::time_point write_at_{}, tail_at_{}, retry_at_{};
  int write_failures_ = 0, failures_ = 0;
  std::optional<Clock::time_point> blocked_since_;

  // Reading all keys, for a snapshot or for the comparison.
  bool asks_place_ = false;
  std::optional<SlotPlace> place_;  // when it began; only in a cluster
  bool scans_target_ = false;       // the owner is done, and it moves
  std::string cursor_ = "0";
  bool scanned_ = false;
  std::deque<std::vector<std::string>> pages_;
  std::uint64_t round_ = 0;  // what was listed for an earlier one is no answer for this
  bool compares_ = false;
  Version compared_from_;
  bool hurries_ = false;  // notifications of older peers may have been missed
  Clock::time_point compare_at_{};
  std::unordered_set<std::size_t> seen_;  // hashes of keys

  std::deque<std::string> dirty_order_;  // keys to fetch
  std::unordered_set<std::string> dirty_;
  std::deque<Fetched> parked_;            // read at a place of the log that is not reached yet
  std::vector<Unplaced> unplaced_;        // of which a later tail is to say where that is
  Clock::time_point one_by_one_until_{};  // the slot moves: no two keys need be at one server
  // Deleted while a fetch was under way that may still have the value from before; what the floor
  // covers is fetched again.
  std::unordered_map<std::string, Version> gone_;
  Version gone_floor_;

  std::vector<HistoryRewritten> rewrites_;
  std::deque<HistoryRewritten> lost_;  // the last of them
  MirrorCounters counters_;
};

}  // namespace mirror
}  // namespace warren
