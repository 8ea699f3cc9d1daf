#include "proof/sim/world.h"

#include <algorithm>

#include "base/error.h"

namespace warren::sim {

namespace {

// More actions than this at one instant mean an endless loop.
constexpr int most_at_an_instant = 1'000'000;

}  // namespace

void World::at(Clock::time_point time, Action action) {
  if (free_places_.empty()) {
    free_places_.push_back(static_cast<std::uint32_t>(actions_.size()));
    actions_.emplace_back();
  }
  auto place = free_places_.back();
  free_places_.pop_back();
  actions_[place] = std::move(action);
  queue_.push_back({std::max(time, now_), asked_++, place});
  std::ranges::push_heap(queue_, std::greater());
}

void World::run_until(Clock::time_point time) {
  while (!queue_.empty() && queue_.front().time <= time) {
    std::ranges::pop_heap(queue_, std::greater());
    auto due = queue_.back();
    queue_.pop_back();
    if (std::exchange(now_, due.time) != due.time) at_this_instant_ = 0;
    ensure(++at_this_instant_ < most_at_an_instant, "a schedule goes on: its time does not stop");
    auto action = std::move(actions_[due.place]);
    free_places_.push_back(due.place);
    ++done_;
    action();
  }
  now_ = std::max(now_, time);
}

}  // namespace warren::sim
