#pragma once
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace warren::history {

// Events of the same moment keep their order.
template <class Event>
void sort_by_time(std::vector<Event>& events) {
  std::vector<std::size_t> order(events.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(events[i].at, i); });
  std::vector<Event> sorted;
  sorted.reserve(events.size());
  for (auto i : order) sorted.push_back(events[i]);
  events = std::move(sorted);
}

}  // namespace warren::history
