#pragma once
// How many nodes a fleet should have: what it says of itself in, a number and the reason out.
//
//   wanted = the largest of   bytes of all repositories / 80 % of a node's budget
//                             nodes × how busy their processors are / 60 %
//                             seconds of fetching and building that wait / 120
//                             one more than there are, while rows find no node with room. What a
//                             build holds for its own time is room: else each row that waits for
//                             its turn would want another node
//
//   more    the least that was needed at any time of three minutes, when that is more than wanted
//   fewer   one less, when fewer were needed all through fifteen minutes and the others would stay
//           below 75 % of their budgets
//
// What was raised, or was there for three minutes, stays wanted until it is lowered: a node that is on its
// way, or died and comes back, is wanted all the while, and nobody starts another for it.
//
//   need  2 2 2 3 3 3 3 3 3 3 3 3 3 2 2      What a look says is late: a node says how busy it is
//   nodes 2 2 2 2 2 2 3 3 3 3 3 3 3 3 3      with its heartbeat, as an average, and a new one has
//                     |<settle>|<- up ->     nothing yet. Right after a change the looks show a
//                              new looks     fleet that is no more, so they are not counted.
//
// Rejected: following each look. A build, a burst of queries or a node that has just come would make
// nodes come and go, and each of them costs the others a hand-over. Rejected, too: counting looks from
// before a change. With windows shorter than the looks are late, each step was then followed by another.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "base/clock.h"

namespace warren::fleet {

struct ScaleTerms {
  std::size_t least = 1, most = 100;
  std::chrono::milliseconds up_after = 3min, down_after = 15min;
  // Not counted after the number of nodes has changed, or what is wanted: two heartbeats, the average
  // of how busy a node is, and what a new node claims.
  std::chrono::milliseconds settle = 45s;
  double fill = 0.80, fill_with_one_less = 0.75;  // of the budgets
  double busy = 0.60;                             // of the processors
  std::chrono::seconds queue = 120s;              // of work that waits, for each node
};

// One look.
struct FleetLoad {
  std::size_t nodes = 0;           // that live and do not drain
  std::uint64_t budget_bytes = 0;  // of all of them
  std::uint64_t wanted_bytes = 0;  // of all rows, as far as is known
  double busy = 0;                 // of the nodes' processors, on average: 0 to 1
  double queue_seconds = 0;        // of fetching and building that is not done
  std::size_t unclaimed = 0;       // rows that nobody has
  std::size_t roomless = 0;  // of those: no node has room, not even when its builds have ended
};

struct Scale {
  std::size_t nodes = 0;
  std::string reason = {};  // for people
  bool operator==(const Scale&) const = default;
};

class Scaler {
 public:
  explicit Scaler(ScaleTerms terms = {}) : terms_(terms) {}

  void on_load(Clock::time_point now, const FleetLoad& load);
  // How many there should be. Fewer than there are only after a step down, or beyond the most that is
  // allowed. 0 before the first look.
  const Scale& wanted() const { return wanted_; }
  const FleetLoad& load() const { return load_; }

 private:
  struct Look {
    Clock::time_point at;
    std::size_t nodes;
  };
  Scale needed(const FleetLoad& load) const;
  Scale decide(Clock::time_point now, const Scale& need) const;
  bool covers(Clock::time_point now, std::chrono::milliseconds time) const;
  void start_anew(Clock::time_point now);

  ScaleTerms terms_;
  FleetLoad load_;
  Scale wanted_;
  std::size_t target_ = 0;         // of the last step; what is there is wanted anyway
  std::size_t stepping_from_ = 0;  // nodes there were before the step down that is under way; or 0
  std::deque<Look> looks_;         // what was needed, the newest last
  Clock::time_point counts_from_ = {};  // looks from before do not
};

}  // namespace warren::fleet
