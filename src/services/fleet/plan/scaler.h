#pragma once
// How many nodes a fleet should have: what it says of itself in, a number and the reason out.
//
//   wanted = the largest of   bytes of all repositories / 80 % of a node's budget
//                             nodes × how busy their processors are / 60 %
//                             seconds of fetching and building that wait / 120
//                             one more than there are, while rows find no node with room
//
//   more    the least that was wanted at any time of three minutes, when that is more than there are
//   fewer   one less, when fewer were wanted all through fifteen minutes and the others would stay
//           below 75 % of their budgets; then the fifteen minutes begin anew
//
// Rejected: following each look. A build, a burst of queries or a node that has just come would make
// nodes come and go, and each of them costs the others a hand-over.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "base/clock.h"

namespace warren::fleet {

struct ScaleTerms {
  std::size_t least = 1, most = 100;
  std::chrono::milliseconds up_after = 3min, down_after = 15min;
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
  // How many there should be; as many as there are while nothing was seen for long enough, and 0 before
  // the first look.
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

  ScaleTerms terms_;
  FleetLoad load_;
  Scale wanted_;
  std::deque<Look> looks_;     // what was needed, the newest last
  Clock::time_point since_{};  // looks from before do not count for a step down
};

}  // namespace warren::fleet
