#pragma once
// What a node has in memory, and what has to go when that is too much.
//
//   0 ──────── budget ──────────────────────────────────────────────────▶
//      used: what answers queries         85 %: demote (hot -> warm, still answers)
//      reserved: builds under way         92 % for a minute, or 97 %: evict
//
// Only what stays counts as pressure. A build's temporary memory is reserved before it begins and
// evicts nobody: elsewhere that mistake took two thousand repositories out of a search for hours.
// What goes first is what is worth least: asked for seldom, quick to build again, large. Pinned and
// young ones stay, and after each eviction the shelf waits for its effect.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace warren::fleet {

enum class EvictionPolicy : std::uint8_t { value, lru };

struct ShelfTerms {
  std::uint64_t budget_bytes = std::uint64_t{4} << 30;
  EvictionPolicy policy = EvictionPolicy::value;
  double demote_at = 0.85, evict_at = 0.92, evict_at_once_at = 0.97;  // of the budget
  double admit_at = 0.90;  // what nobody waits for is taken only if this is not passed by it
  std::chrono::seconds sustained = 60s;   // for so long above evict_at
  std::chrono::seconds youth = 300s;      // nobody younger goes
  std::chrono::seconds cool_down = 30s;   // between two evictions, but for evict_at_once_at
  std::chrono::seconds regretted = 900s;  // asked for so soon after its eviction
  std::chrono::seconds absence = 600s;    // after an eviction other nodes claim first: see Claims
};

// Whether a node with this much memory takes a build that nobody waits for.
bool would_admit(std::uint64_t budget_bytes, std::uint64_t free_bytes, std::uint64_t peak,
                 double admit_at = ShelfTerms().admit_at);

class Shelf {
 public:
  explicit Shelf(ShelfTerms terms) : terms_(terms) {}

  // What nobody waits for: it fits, and would press out nobody later. `peak` is what its build takes.
  bool admits(std::uint64_t peak) const;
  // Room for the peak of a build. False: there is none.
  bool reserve(const std::string& repo, std::uint64_t bytes);
  void unreserve(const std::string& repo);

  struct Held {
    std::uint64_t bytes = 0;
    bool is_warm = false;
    bool is_pinned = false;
    double rebuild_seconds = 1;  // what it cost to fetch and to index
  };
  // It is there now, in place of what was there of it.
  void put(Clock::time_point now, const std::string& repo, Held held);
  bool remove(const std::string& repo);  // true: it was there
  void on_pinned(const std::string& repo, bool is_pinned);
  void on_served(Clock::time_point now, const std::string& repo);
  // Somebody asked for what is not here. True: it was evicted not long ago.
  bool on_missed(Clock::time_point now, const std::string& repo);
  // It was evicted here less than `absence` ago.
  bool was_evicted(Clock::time_point now, const std::string& repo) const;

  // So much is to be free for a build: until it is, what is hot is demoted. 0: nothing waits.
  void want_room(std::uint64_t bytes) { wanted_room_ = bytes; }

  enum class Act : std::uint8_t { demote, evict };
  struct Step {
    Act act;
    std::string repo;
  };
  // Both are there for a moment: what is to be reserved meanwhile.
  static std::uint64_t room_to_demote(std::uint64_t bytes) { return bytes / 2; }
  // The next thing to do about pressure, if any. The caller does it and says so: put() with what is
  // left of it, or on_evicted().
  std::optional<Step> next(Clock::time_point now);
  void on_evicted(Clock::time_point now, const std::string& repo);
  // For one that somebody waits for: what would have to go, the least worth first. None: not even all
  // that may go, and is worth less, would make room; or something is hot, which is demoted first; or the
  // last eviction was not long ago.
  struct Wanted {
    std::uint64_t bytes = 0;    // the peak of its build
    std::uint64_t queries = 0;  // for it lately
    double rebuild_seconds = 1;
    bool is_pinned = false;  // worth more than anything that is not pinned
  };
  std::optional<std::vector<std::string>> room_for(Clock::time_point now,
                                                   const Wanted& wanted) const;

  std::uint64_t budget() const { return terms_.budget_bytes; }
  std::uint64_t used() const { return used_bytes_; }
  std::uint64_t reserved() const { return reserved_bytes_; }
  std::uint64_t free() const;
  std::uint64_t hot() const { return hot_bytes_; }  // of the used
  std::size_t size() const { return items_.size(); }
  struct Counters {
    std::uint64_t demoted = 0, evicted = 0, missed = 0, regretted = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  struct Item {
    Held held;
    Clock::time_point since{}, served{};
    double rate = 0;  // queries, each half as heavy every ten minutes
  };
  double worth(Clock::time_point now, const Item& item) const;
  static double worth(double rate, double rebuild_seconds, std::uint64_t bytes);
  bool has_cooled(Clock::time_point now) const;
  bool may_go(Clock::time_point now, const Item& item) const;
  std::optional<std::string> least_worth(Clock::time_point now, bool hot_only) const;

  ShelfTerms terms_;
  std::map<std::string, Item> items_;
  std::map<std::string, std::uint64_t> reserved_;
  std::uint64_t used_bytes_ = 0, hot_bytes_ = 0, reserved_bytes_ = 0;  // sums
  std::map<std::string, Clock::time_point> gone_;                      // evicted, and when
  std::optional<Clock::time_point> pressed_since_;
  std::uint64_t wanted_room_ = 0;
  Clock::time_point last_eviction_ = Clock::time_point::min();
  Counters counters_;
};

}  // namespace warren::fleet
