#pragma once
// Virtual time and chance: what happens in one simulated schedule, in order.
//
//   World world(seed);
//   world.after(5ms, [&] { … });
//   world.run_until(world.now() + 10s);     // takes microseconds
//
// Nothing else in a simulation has a clock or random numbers, so a seed repeats a schedule exactly.
#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "proof/sim/random.h"

namespace warren::sim {

class World {
 public:
  using Action = std::move_only_function<void()>;  // captures of three pointers allocate nothing

  explicit World(std::uint64_t seed) : random_(seed) {}

  // Starts a day after Clock's own beginning, so that no time equals the one that means "never".
  Clock::time_point now() const { return now_; }
  // Actions due at the same time run in the order in which they were requested. An action that is
  // due in the past runs now.
  void at(Clock::time_point time, Action action);
  void after(Clock::duration delay, Action action) { at(now_ + delay, std::move(action)); }
  // Runs everything that is due until then, including what that requests.
  void run_until(Clock::time_point time);

  double unit() { return random_.unit(); }
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
  bool chance(double probability) { return random_.chance(probability); }
  // Any time between the two, with equal probability.
  Clock::duration between(Clock::duration least, Clock::duration most) {
    return least + Clock::duration(static_cast<Clock::rep>(
                       unit() * static_cast<double>((most - least).count())));
  }
  std::uint64_t actions_done() const { return done_; }

 private:
  struct Due {
    Clock::time_point time;
    std::uint64_t order;
    std::uint32_t place;  // in actions_
    bool operator>(const Due& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  Clock::time_point now_{std::chrono::hours(24)};
  std::vector<Due> queue_;  // a heap; the earliest is first
  std::vector<Action> actions_;
  std::vector<std::uint32_t> free_places_;
  std::uint64_t asked_ = 0, done_ = 0;
  int at_this_instant_ = 0;
  Random random_;
};

}  // namespace warren::sim
