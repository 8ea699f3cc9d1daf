#pragma once
// What really happened to the data of simulated mirrors: every entry that any server wrote.
//
//   -  ◀── 1-0 w0:1 ◀── 1-1 w1:1 ◀── 1-2 w0:2       An entry names the one it follows, so all
//                              ◀── 2-0 w1:2 ◀── …    histories are one tree; a failover that loses
//                                                    entries begins a branch.
//
// Each entry knows the result of a replay of the log up to it. A snapshot is right if it equals
// that.
#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "primitives/mirror/entry.h"
#include "proof/sim/model_redis.h"

namespace warren::mirror {

// What a simulation writes: numbers, each only once, under these keys.
namespace keys {
enum Type : std::size_t {
  own,
  shared,
  bulk
};  // written by one instance, by all, and in large puts
inline constexpr std::array<const char*, 3> folders{"own:", "shared:", "bulk:"};
inline constexpr std::array<std::size_t, 3> counts{8, 4, 110};
inline constexpr std::array<std::size_t, 3> firsts{0, 8, 12};
inline constexpr std::size_t few = 12, all = 122;  // without and with those in large puts

// For a key without its prefix.
std::optional<std::size_t> number_of(std::string_view key);
std::string name_of(std::size_t number);
}  // namespace keys

using Number = std::uint64_t;  // 0: it does not exist
Number number_in(std::string_view value);

class Truth {
 public:
  static constexpr std::size_t most_writers = keys::counts[keys::own];

  using Changes = std::vector<std::pair<std::size_t, Number>>;  // keys and their new values
  struct Value {
    Number number = 0;
    Version since;  // of the entry that set it
  };
  struct Entry {
    Position at;
    const Entry* before = nullptr;  // null: only for the root
    std::size_t depth = 0;
    Clock::time_point time;
    std::vector<Value> values;                             // of a replay, by the key's number
    Changes changes;                                       // of this entry
    std::array<std::uint64_t, most_writers> batches = {};  // the last one of each writer
  };

  // With this many keys.
  explicit Truth(std::size_t keys);

  // A server ran write.lua. Returns what is wrong with that, if anything: every history must have
  // the batches of a writer in order, and once.
  std::optional<std::string> on_written(Clock::time_point now, const sim::Words& words,
                                        const redis::Reply& reply);
  // A key was set, or deleted, without the log. Readers may or may not see that yet.
  void on_outside(std::size_t key, Number number);
  void on_flushed();
  // The next history begins with the current values.
  void on_head_deleted();
  // Another server takes over, or the same one with other data: versions may repeat.
  void on_other_server(Clock::time_point now);

  const Entry* find(const std::string& stamp) const;
  // The writer's last entry at this version whose changes, or newer ones, it or the writer's
  // earlier batches have.
  const Entry* find(std::size_t writer, Version version, const Changes& changes) const;
  // True if only one entry has this version, in all histories.
  bool is_unique(Version version) const;
  // Also true for the same entry.
  static bool is_before(const Entry& older, const Entry& newer);
  // Whether a reader at the entry may have this number under the key. Unless `is_one_history`,
  // values from outside the log may be of any time.
  bool allows(const Entry& entry, std::size_t key, Number number, bool is_one_history) const;

  // Everything written before this time on the current server. Returns Version{} if the server
  // changed later.
  Version written_before(Clock::time_point time) const;

 private:
  struct Outside {
    std::size_t key;
    Number number;
    Version tail;
  };
  struct Written {
    Clock::time_point time;
    Version newest;
  };
  bool has_change(const Entry& entry, std::size_t writer, std::size_t key, Number number) const;

  std::deque<Entry> entries_;
  boost::unordered_flat_map<std::string, const Entry*> by_stamp_;
  std::array<std::vector<const Entry*>, most_writers> by_writer_;
  std::vector<Outside> outside_;
  std::vector<Written> written_;
  Clock::time_point same_since_{};
  const Entry* last_;
  const Entry* base_;  // what a first entry follows
};

}  // namespace warren::mirror
