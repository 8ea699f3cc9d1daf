#include "services/foghorn/simulate/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace warren::simulate {

namespace {

// Where viewers and nodes are.
constexpr std::array<Place, 12> cities{{{51.5, -0.1},
                                        {52.4, 4.9},
                                        {48.9, 2.4},
                                        {40.4, -3.7},
                                        {40.7, -74.0},
                                        {37.8, -122.4},
                                        {41.9, -87.6},
                                        {-23.6, -46.6},
                                        {1.35, 103.8},
                                        {35.7, 139.7},
                                        {19.1, 72.9},
                                        {-33.9, 151.2}}};
constexpr double used_part = 0.6;  // of all nodes together, when all viewers are there
constexpr double never_come = 0.02;

double exponential(std::mt19937_64& random, double mean) {
  return -mean * std::log(1 - between(random, 0, 1));
}

}  // namespace

double between(std::mt19937_64& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
}

World::World(const Terms& terms)
    : terms_(terms),
      visits_(terms.seed + 1),
      mean_stay_(static_cast<double>(terms.length.count()) / 6) {
  std::mt19937_64 random(terms.seed);
  double shares = 0;
  for (int n = 0; n < terms.nodes; ++n) {
    auto& node = nodes.emplace_back();
    node.id = fmt::format("edge-{:04}", n);
    node.place = some_place(random);
    node.limit = n % 3 == 0 ? 2 : 1;  // every third is twice as large
    shares += node.limit;
  }
  for (auto& node : nodes) node.limit *= terms.viewers * viewer_rate / used_part / shares;
  double sum = 0;
  for (int s = 0; s < terms.streams; ++s) {
    streams.push_back(fmt::format("stream-{:05}", s));
    popularity_.push_back(sum += 1 / std::pow(s + 1, 0.9));
  }
  spread_streams(random);
}

// Each stream is on as many nodes as its usual viewers need twice over, and on three at least.
void World::spread_streams(std::mt19937_64& random) {
  double before = 0;
  for (int s = 0; s < terms_.streams; ++s) {
    auto at = static_cast<std::size_t>(s);
    double part = (popularity_[at] - std::exchange(before, popularity_[at])) / popularity_.back();
    auto copies = static_cast<std::size_t>(std::ceil(2 * part * used_part * terms_.nodes));
    copies = std::clamp<std::size_t>(copies, std::min<std::size_t>(3, nodes.size()), nodes.size());
    auto first = random() % nodes.size();
    for (std::size_t k = 0; k < copies; ++k) {
      auto& node = nodes[(first + k * 13 + k / nodes.size()) % nodes.size()];
      node.streams[s] = {0, k > 0, false};
    }
  }
}

Place World::some_place(std::mt19937_64& random) const {
  auto city = cities[random() % cities.size()];
  return {city.latitude + between(random, -3, 3), city.longitude + between(random, -3, 3)};
}

int World::some_stream() {
  auto at = between(visits_, 0, popularity_.back());
  auto found = std::ranges::lower_bound(popularity_, at);
  return static_cast<int>(std::min<std::ptrdiff_t>(
      found - popularity_.begin(), static_cast<std::ptrdiff_t>(streams.size()) - 1));
}

void World::decide_rest(Visit& visit) {
  visit.delay = between(visits_, 0.3, 3);
  if (between(visits_, 0, 1) < never_come) visit.delay = -1;
  visit.instance = static_cast<int>(visits_() % static_cast<unsigned>(terms_.instances));
}

Visit World::next_visit() {
  now_ += exponential(visits_, mean_stay_ / terms_.viewers);
  Visit visit;
  visit.second = now_;
  visit.stream = some_stream();
  visit.place = some_place(visits_);
  visit.stay = exponential(visits_, mean_stay_);
  decide_rest(visit);
  return visit;
}

Visit World::crowd_visit() {
  Visit visit;
  visit.stream = static_cast<int>(streams.size() / 2);  // of which nobody would have thought
  visit.place = {cities[0].latitude + between(visits_, -3, 3),
                 cities[0].longitude + between(visits_, -3, 3)};
  visit.stay = exponential(visits_, mean_stay_ / 2);
  decide_rest(visit);
  return visit;
}

}  // namespace warren::simulate
