#include "services/fleet/plan/shelf.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace warren::fleet {

namespace {

double aged(double rate, Clock::duration time) {
  using Seconds = std::chrono::duration<double>;
  return rate * std::exp2(-std::chrono::duration_cast<Seconds>(time).count() / 600);
}

}  // namespace

bool would_admit(std::uint64_t budget_bytes, std::uint64_t free_bytes, std::uint64_t peak,
                 double admit_at) {
  auto taken = budget_bytes - std::min(free_bytes, budget_bytes);
  auto later = static_cast<double>(taken) + static_cast<double>(peak) / 2;
  return peak <= free_bytes && later <= admit_at * static_cast<double>(budget_bytes);
}

bool Shelf::admits(std::uint64_t peak) const {
  return would_admit(budget(), free(), peak, terms_.admit_at);
}

bool Shelf::reserve(const std::string& repo, std::uint64_t bytes) {
  auto old = reserved_.find(repo);
  auto room = free() + (old == reserved_.end() ? 0 : old->second);
  if (bytes > room) return false;
  unreserve(repo);
  reserved_[repo] = bytes;
  reserved_bytes_ += bytes;
  return true;
}

void Shelf::unreserve(const std::string& repo) {
  auto found = reserved_.find(repo);
  if (found == reserved_.end()) return;
  reserved_bytes_ -= found->second;
  reserved_.erase(found);
}

void Shelf::put(Clock::time_point now, const std::string& repo, Held held) {
  auto [place, is_new] = items_.try_emplace(repo);
  auto& item = place->second;
  if (is_new) item.since = item.served = now;
  if (!is_new && held.is_warm && !item.held.is_warm) ++counters_.demoted;
  used_bytes_ += held.bytes - item.held.bytes;
  hot_bytes_ += (held.is_warm ? 0 : held.bytes) - (item.held.is_warm ? 0 : item.held.bytes);
  item.held = held;
}

bool Shelf::remove(const std::string& repo) {
  auto found = items_.find(repo);
  if (found == items_.end()) return false;
  used_bytes_ -= found->second.held.bytes;
  if (!found->second.held.is_warm) hot_bytes_ -= found->second.held.bytes;
  items_.erase(found);
  return true;
}

void Shelf::on_pinned(const std::string& repo, bool is_pinned) {
  auto found = items_.find(repo);
  if (found != items_.end()) found->second.held.is_pinned = is_pinned;
}

void Shelf::on_served(Clock::time_point now, const std::string& repo) {
  auto found = items_.find(repo);
  if (found == items_.end()) return;
  auto& item = found->second;
  item.rate = aged(item.rate, now - item.served) + 1;
  item.served = now;
}

bool Shelf::on_missed(Clock::time_point now, const std::string& repo) {
  ++counters_.missed;
  auto found = gone_.find(repo);
  if (found == gone_.end() || now - found->second > terms_.regretted) return false;
  ++counters_.regretted;
  return true;
}

bool Shelf::was_evicted(Clock::time_point now, const std::string& repo) const {
  auto found = gone_.find(repo);
  return found != gone_.end() && now - found->second < terms_.absence;
}

std::optional<Shelf::Step> Shelf::next(Clock::time_point now) {
  auto part =
      static_cast<double>(used()) / static_cast<double>(std::max<std::uint64_t>(budget(), 1));
  if (part < terms_.evict_at)
    pressed_since_.reset();
  else if (!pressed_since_)
    pressed_since_ = now;
  bool lacks_room = wanted_room_ > 0 && !admits(wanted_room_);
  if (part < terms_.demote_at && !lacks_room) return std::nullopt;
  if (auto repo = least_worth(now, true)) return Step{Act::demote, *std::move(repo)};
  bool at_once = part >= terms_.evict_at_once_at;
  bool is_sustained = pressed_since_ && now - *pressed_since_ >= terms_.sustained;
  if (!at_once && !(is_sustained && has_cooled(now))) return std::nullopt;
  if (auto repo = least_worth(now, false)) return Step{Act::evict, *std::move(repo)};
  return std::nullopt;
}

void Shelf::on_evicted(Clock::time_point now, const std::string& repo) {
  if (!remove(repo)) return;
  ++counters_.evicted;
  last_eviction_ = now;
  std::erase_if(gone_, [&](const auto& entry) { return now - entry.second > terms_.regretted; });
  gone_[repo] = now;
}

bool Shelf::has_cooled(Clock::time_point now) const {
  return last_eviction_ == Clock::time_point::min() || now - last_eviction_ >= terms_.cool_down;
}

std::optional<std::vector<std::string>> Shelf::room_for(Clock::time_point now,
                                                        const Wanted& wanted) const {
  auto bytes = wanted.bytes;
  if (free() >= bytes) return std::vector<std::string>();
  if (!has_cooled(now) || least_worth(now, true)) return std::nullopt;
  // It is asked for now, which by that policy is worth more than anything before.
  bool is_worth_most = wanted.is_pinned || terms_.policy == EvictionPolicy::lru;
  auto limit = is_worth_most
                   ? std::numeric_limits<double>::infinity()
                   : worth(static_cast<double>(wanted.queries), wanted.rebuild_seconds, bytes / 2);
  std::vector<std::pair<double, const std::string*>> order;
  for (const auto& [repo, item] : items_)
    if (may_go(now, item) && worth(now, item) < limit) order.emplace_back(worth(now, item), &repo);
  std::ranges::sort(order, {},
                    [](const auto& entry) { return std::pair(entry.first, *entry.second); });
  auto room = free();
  std::vector<std::string> going;
  for (const auto& [value, repo] : order) {
    if (room >= bytes) break;
    room += items_.at(*repo).held.bytes;
    going.push_back(*repo);
  }
  if (room < bytes) return std::nullopt;
  return going;
}

std::uint64_t Shelf::free() const {
  auto taken = used() + reserved();
  return budget() > taken ? budget() - taken : 0;
}

// What a second without it would cost, for each byte that it takes.
double Shelf::worth(Clock::time_point now, const Item& item) const {
  if (terms_.policy == EvictionPolicy::lru)
    return static_cast<double>(item.served.time_since_epoch().count());
  return worth(aged(item.rate, now - item.served), item.held.rebuild_seconds, item.held.bytes);
}

double Shelf::worth(double rate, double rebuild_seconds, std::uint64_t bytes) {
  // One nobody has ever asked for is still worth its rebuilding a little.
  return (rate + 0.01) * rebuild_seconds / static_cast<double>(std::max<std::uint64_t>(bytes, 1));
}

bool Shelf::may_go(Clock::time_point now, const Item& item) const {
  return !item.held.is_pinned && now - item.since >= terms_.youth;
}

std::optional<std::string> Shelf::least_worth(Clock::time_point now, bool hot_only) const {
  const std::string* least = nullptr;
  double value = 0;
  for (const auto& [repo, item] : items_) {
    if (hot_only ? item.held.is_warm || room_to_demote(item.held.bytes) > free()
                 : !may_go(now, item))
      continue;
    auto one = worth(now, item);
    if (least && one >= value) continue;
    least = &repo;
    value = one;
  }
  if (!least) return std::nullopt;
  return *least;
}

}  // namespace warren::fleet
