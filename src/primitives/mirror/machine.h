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
  bool never_checks_tail = false;
};

struct Request {
  enum class Kind { write, tail, catch_up, probe, scan, load, fetch, digest };
  Kind kind;
  const redis::Script* script = nullptr;  // or none: then `words` is the command
  std::vector<std::string> words;         // keys of the script, or the command
  std::vector<std::string> args;          // of the script
  // For the machine, which gets it back with the answer:
  std::uint64_t run = 0;
  Clock::time_point sent_at = {};
  Version position = {};
};

class Machine {
 public:
  // `random` gives numbers in [0, 1).
  Machine(MirrorTerms terms, std::string writer, std::function<double()> random, Flaws flaws = {});

  // What is published from now on is not missed without an on_gap.
  void on_subscribed(Clock::time_point now);
  void on_gap(Clock::time_point now);
  // Perhaps to another server than before, which may have another history.
  void on_connected(Clock::time_point now, std::uint64_t epoch);
  void on_message(Clock::time_point now, std::string_view channel, std::string_view payload);
  void on_reply(Clock::time_point now, Request request, const Result<redis::Reply>& reply);
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
  const Outbox& outbox() const { return outbox_; }
  const MirrorCounters& counters() const { return counters_; }

 private:
  struct Fetched {
    Version version;
    std::vector<std::string> keys;     // after the first, which is the head
    std::vector<redis::Reply> values;  // after the first, which is the tail
  };
  struct Own {
    Position at;
    std::uint64_t server;
    Clock::time_point told_at;
  };
  struct Check {
    Position tail;
    Clock::time_point sent_at;
  };

  std::optional<Request> next_write(Clock::time_point now);
  std::optional<Request> next_tail(Clock::time_point now);
  std::optional<Request> next_load(Clock::time_point now);
  bool can_scan() const;
  bool can_load() const;
  std::optional<Request> next_log(Clock::time_point now);
  std::optional<Request> next_fetch(Clock::time_point now);
  std::optional<Request> next_compare(Clock::time_point now);
  Request ask(Clock::time_point now, Request::Kind kind, std::vector<std::string> words) const;
  Request ask_scan(Clock::time_point now, std::size_t count);

  void on_write_reply(Clock::time_point now, Request request, const Result<redis::Reply>& reply);
  void on_failure(Clock::time_point now, Request request);
  void on_tail(Clock::time_point now, const Request& request, const redis::Reply& reply);
  void on_log(Clock::time_point now, const Request& request, const redis::Reply& reply);
  void on_probe(Clock::time_point now, const redis::Reply& reply);
  void on_scan(Clock::time_point now, const redis::Reply& reply);
  void on_loaded(Clock::time_point now, const Request& request, const redis::Reply& reply);
  void on_fetched(Clock::time_point now, Request request, const redis::Reply& reply);
  void on_digest(const Request& request, const redis::Reply& reply);

  void on_own(Clock::time_point now, Entry entry);
  void forget_own();
  void expect_own(const Position& at);
  void take(Clock::time_point now, Entry entry);
  void hold(Entry entry);
  bool follows(const Entry& entry) const;
  void apply(const Entry& entry);
  void begin_load(Clock::time_point now);
  void begin_catch_up();
  void finish_catch_up(Clock::time_point now);
  void begin_resync(Clock::time_point now);
  void rewritten(Clock::time_point now, Version after);
  void tell_rewrite(Version after, Version until, bool certain);
  void reach(Clock::time_point now, Version target);
  void confirm();
  std::optional<bool> has(const Position& at) const;
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
  void apply_fetched(const Fetched& fetched);
  void apply_fetched(const std::string& key, const redis::Reply& value, Version version);
  void mark_dirty(std::string key);

  MirrorTerms terms_;
  std::string pattern_;
  std::function<double()> random_;
  Flaws flaws_;
  Outbox outbox_;
  std::optional<Entry> written_;  // our own, to be applied
  std::uint64_t epoch_ = 0;
  std::uint64_t server_ = 0;  // grows when it may be another one

  MirrorPhase phase_ = MirrorPhase::cold;
  bool loading_ = true;  // tables_ is not what readers may see
  bool ready_ = false;
  bool moved_ = false;     // since continuity was last seen: the server may be another one
  bool told_ = false;      // that the history of what readers see was rewritten
  std::uint64_t run_ = 0;  // answers to what was asked before a new beginning are not for us
  Position position_;      // of the last entry in tables_
  std::string born_;       // how the history began that it is part of
  Version target_;         // the newest that Redis told of
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

  // What is asked: at most one of each, but fetches.
  bool writes_ = false, asks_tail_ = false, asks_log_ = false, asks_page_ = false;
  bool must_probe_ = false;
  int fetches_ = 0;
  Clock::time_point write_at_{}, tail_at_{}, retry_at_{};
  int write_failures_ = 0, failures_ = 0;

  // Reading all keys, for a snapshot or for the comparison.
  std::string cursor_ = "0";
  bool scanned_ = false;
  std::deque<std::vector<std::string>> pages_;
  bool compares_ = false;
  Version compared_from_;
  bool hurries_ = false;  // notifications of older peers may have been missed
  Clock::time_point compare_at_{};
  std::unordered_set<std::size_t> seen_;  // hashes of keys

  std::deque<std::string> dirty_order_;  // keys to fetch
  std::unordered_set<std::string> dirty_;
  std::deque<Fetched> parked_;  // read at a place of the log that is not reached yet
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
