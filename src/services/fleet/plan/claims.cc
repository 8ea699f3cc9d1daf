#include "services/fleet/plan/claims.h"

#include <fmt/format.h>

#include <algorithm>

namespace warren::fleet {

namespace {

// So much shorter are the steps of those who have a mirror. Among themselves their order stays.
constexpr int mirror_haste = 16;

}  // namespace

void Claims::on_offers(Clock::time_point now, std::vector<Offer> offers) {
  std::map<std::string, Seen> before;
  before.swap(seen_);
  const auto* us = nodes_.find(terms_.node);
  bool may_be_ours = false;
  is_cut_off_ = offers.size() >= wanted_;
  lacks_room_ = 0;
  std::size_t place = 0;
  for (auto& offer : offers) {
    auto key = offer.key;
    auto old = before.find(key);
    Seen seen;
    if (old != before.end() && old->second.offer.zones == offer.zones) seen.turn = old->second.turn;
    if (old != before.end()) seen.is_refused = old->second.is_refused;
    seen.offer = std::move(offer);
    seen.place = place++;
    take_place(now, us, seen);
    may_be_ours = may_be_ours || (!seen.can_never && !seen.is_refused);
    seen_.emplace(std::move(key), std::move(seen));
  }
  auto usual = std::clamp(defaults::offers_per_node * nodes_.size(), least_offers, most_offers);
  wanted_ = place < usual ? usual : std::max(wanted_, usual);
  if (is_cut_off_ && !may_be_ours) wanted_ = std::min(2 * wanted_, most_offers);
}

void Claims::take_place(Clock::time_point now, const Candidate* us, Seen& seen) {
  const auto& offer = seen.offer;
  // A node may make room for what is wanted: so every node has a place.
  auto bytes = offer.is_here || offer.is_wanted() ? 0 : offer.bytes;
  seen.is_left = offer.was_evicted && !offer.is_here && !offer.is_wanted() &&
                 nodes_.others_admit(terms_.node, offer.bytes);
  seen.can_never = offer.is_ours || seen.is_left || !us || us->free_bytes < bytes ||
                   (!offer.is_here && us->budget_bytes < offer.bytes);
  // If nobody has room for it, whoever could free most demotes for it; if people wait for it, everybody
  // whose turn has come and gone.
  auto need = offer.is_here || offer.is_ours || !us ? 0 : offer.bytes;
  // Before others are evicted for a pinned repository, all of them are demoted.
  bool could = need > lacks_room_ && us->free_bytes < need &&
               (need <= us->could_free() || (offer.is_pinned && need <= us->budget_bytes));
  bool is_refused = offer.is_wanted() && seen.is_refused;
  if (could && (is_refused || (nodes_.roomiest() == us && !nodes_.has_room(need))))
    lacks_room_ = need;
  if (seen.can_never || seen.turn != Clock::time_point{}) return;  // an earlier look gave its turn
  auto rank = offer.is_here ? 0 : *nodes_.place(terms_.node, offer.repo, bytes, offer.zones);
  // Replicas are spread first: a mirror in a zone that has one already is no reason to hurry.
  bool is_near = offer.has_mirror && std::ranges::find(offer.zones, us->zone) == offer.zones.end();
  auto step = is_near ? terms_.step / mirror_haste : terms_.step;
  std::uniform_int_distribution<std::int64_t> jitter(0, step.count());
  seen.turn = now + static_cast<long>(rank) * step + std::chrono::milliseconds(jitter(random_));
}

void Claims::on_beside(Clock::time_point now, const std::string& key,
                       const std::vector<std::string>& nodes) {
  auto found = seen_.find(key);
  if (found == seen_.end()) return;
  auto& seen = found->second;
  auto zones = nodes_.zones_of(nodes);
  if (zones == seen.offer.zones) return;
  seen.offer.zones = std::move(zones);
  seen.turn = {};
  take_place(now, nodes_.find(terms_.node), seen);
}

std::optional<Offer> Claims::next(Clock::time_point now, std::uint64_t free_bytes,
                                  std::size_t unready) {
  return next(now, [&](const Offer& offer) { return offer.bytes <= free_bytes; }, unready);
}

std::optional<Offer> Claims::next(Clock::time_point now, const HasRoom& has_room,
                                  std::size_t unready) {
  Seen* best = nullptr;
  for (auto& [key, seen] : seen_) {
    if (seen.can_never || now < seen.turn) continue;
    if (best && best->place < seen.place) continue;
    if (!seen.offer.is_here && unready >= terms_.most_unready) {
      seen.turn = now + terms_.step;
      continue;
    }
    seen.is_refused = !seen.offer.is_here && !has_room(seen.offer);
    if (seen.is_refused) {
      seen.turn = now + terms_.patience;
      continue;
    }
    best = &seen;
  }
  if (!best) return std::nullopt;
  best->turn = now + terms_.patience;  // until it is answered
  return best->offer;
}

Clock::time_point Claims::wake_at() const {
  auto wake = Clock::time_point::max();
  for (const auto& [key, seen] : seen_)
    if (!seen.can_never) wake = std::min(wake, seen.turn);
  return wake;
}

std::chrono::milliseconds Claims::pause(std::uint32_t attempts) {
  return pause_after(attempts, static_cast<double>(random_() >> 11) * 0x1p-53);
}

std::string Claims::why_not(Clock::time_point now, const std::string& key,
                            std::uint64_t free_bytes) const {
  auto found = seen_.find(key);
  if (found == seen_.end()) return "it is not on offer";
  const auto& seen = found->second;
  if (seen.offer.is_ours) return "this node has another replica of it";
  if (seen.is_left) return "it was evicted here not long ago, and another node has room";
  if (!seen.offer.is_here && seen.offer.bytes > free_bytes)
    return fmt::format("it needs {} bytes, and {} are free", seen.offer.bytes, free_bytes);
  if (seen.can_never) return fmt::format("no node has {} bytes free", seen.offer.bytes);
  if (now >= seen.turn || seen.offer.is_here) return "";
  auto order = nodes_.order(seen.offer.repo, seen.offer.bytes, seen.offer.zones);
  if (order.empty() || order.front() == terms_.node) return "";
  return fmt::format("its turn comes later: {} is nearer", order.front());
}

Offer offer_of(std::string key, std::string repo, std::int64_t rank, const RepoNote& note) {
  Offer offer{.key = std::move(key), .repo = std::move(repo)};
  // A build takes up to twice what stays of it, and a little however small it is.
  offer.bytes = note.memory_bytes > 0 ? 2 * note.memory_bytes + defaults::build_bytes
                                      : defaults::unknown_bytes;
  offer.demand = demand_of(rank);
  auto took = static_cast<double>(note.fetch_ms + note.index_ms) / 1000;
  // Nobody knows of one that was never built: as long as it usually takes.
  offer.rebuild_seconds = took > 0 ? took : 1 + static_cast<double>(offer.bytes) / 20e6;
  return offer;
}

RepoNote with_peak(RepoNote note, std::uint64_t peak_bytes) {
  auto above = peak_bytes > defaults::build_bytes ? peak_bytes - defaults::build_bytes : 0;
  note.memory_bytes = std::max<std::uint64_t>((above + 1) / 2, 1);
  return note;
}

std::optional<std::vector<std::string>> room_for(Clock::time_point now, const Shelf& shelf,
                                                 const Offer& offer) {
  if (offer.is_here || shelf.admits(offer.bytes)) return std::vector<std::string>();
  if (!offer.is_wanted()) return std::nullopt;
  return shelf.room_for(now, {offer.bytes, offer.demand, offer.rebuild_seconds, offer.is_pinned});
}

std::string why_refused(const NodeInfo& node, const Offer& offer) {
  if (node.is_draining) return "is being drained";
  if (offer.bytes > node.free_bytes())
    return fmt::format("has {:.1f} of {:.1f} MB free", static_cast<double>(node.free_bytes()) / 1e6,
                       static_cast<double>(node.budget_bytes) / 1e6);
  if (!offer.is_wanted() && !would_admit(node.budget_bytes, node.free_bytes(), offer.bytes))
    return fmt::format("would be more than {:.0f} % full", 100 * ShelfTerms().admit_at);
  return "";
}

std::chrono::milliseconds pause_after(std::uint32_t attempts, double chance) {
  auto usual = std::min<std::chrono::milliseconds>(5s * (1 << std::min(attempts, 10u)), 10min);
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(static_cast<double>(usual.count()) * (0.5 + chance)));
}

}  // namespace warren::fleet
