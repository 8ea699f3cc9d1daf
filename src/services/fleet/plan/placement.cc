#include "services/fleet/plan/placement.h"

#include <algorithm>
#include <cmath>

#include "services/fleet/plan/shelf.h"

namespace warren::fleet {

namespace {

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;  // FNV
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  return hash;
}

// Mixed so that every bit depends on every letter of both: names differ in their last one.
double uniform(std::uint64_t repo, std::uint64_t node) {
  auto hash = repo + node * 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdu;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53u;
  hash ^= hash >> 33;
  return (static_cast<double>(hash >> 11) + 0.5) / 9007199254740992.0;  // 2^53: in (0, 1)
}

double weight_of(const Candidate& candidate) {
  return static_cast<double>(std::max<std::uint64_t>(candidate.budget_bytes, 1));
}

bool shares_zone(const Candidate& candidate, const std::vector<std::string>& taken_zones) {
  return !taken_zones.empty() && !candidate.zone.empty() &&
         std::ranges::find(taken_zones, candidate.zone) != taken_zones.end();
}

}  // namespace

Placement::Placement(std::vector<Candidate> candidates) : candidates_(std::move(candidates)) {
  for (const auto& candidate : candidates_) hashes_.push_back(hash_of(candidate.name));
}

const Candidate* Placement::find(std::string_view node) const {
  auto found = std::ranges::find(candidates_, node, &Candidate::name);
  return found == candidates_.end() ? nullptr : &*found;
}

std::vector<std::string> Placement::zones_of(const std::vector<std::string>& nodes) const {
  std::vector<std::string> zones;
  for (const auto& node : nodes) {
    const auto* candidate = find(node);
    if (candidate && !candidate->zone.empty()) zones.push_back(candidate->zone);
  }
  return zones;
}

bool Placement::has_room(std::uint64_t bytes) const {
  return std::ranges::any_of(candidates_, [&](const auto& one) { return one.free_bytes >= bytes; });
}

bool Placement::others_admit(std::string_view node, std::uint64_t bytes) const {
  return std::ranges::any_of(candidates_, [&](const Candidate& one) {
    return one.name != node && would_admit(one.budget_bytes, one.free_bytes, bytes);
  });
}

const Candidate* Placement::roomiest() const {
  auto found = std::ranges::max_element(candidates_, {}, &Candidate::could_free);
  return found == candidates_.end() ? nullptr : &*found;
}

std::vector<std::string> Placement::order(std::string_view repo, std::uint64_t bytes,
                                          const std::vector<std::string>& taken_zones) const {
  struct Placed {
    bool shares;
    double distance;
    const Candidate* candidate;
  };
  auto hash = hash_of(repo);
  std::vector<Placed> placed;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto& candidate = candidates_[i];
    if (candidate.free_bytes < bytes) continue;
    // The logarithm makes the chance to be first exactly the share of the weight.
    auto distance = -std::log(uniform(hash, hashes_[i])) / weight_of(candidate);
    placed.push_back({shares_zone(candidate, taken_zones), distance, &candidate});
  }
  std::ranges::sort(placed, [](const Placed& a, const Placed& b) {
    if (a.shares != b.shares) return b.shares;
    return a.distance != b.distance ? a.distance < b.distance
                                    : a.candidate->name < b.candidate->name;
  });
  std::vector<std::string> names;
  for (const auto& one : placed) names.push_back(one.candidate->name);
  return names;
}

// Two hundred nodes that each ask for their place in the order of fifty thousand repositories compare
// two billion distances. The bound of the hash below which another one is farther depends on its
// weight alone, and most weights are equal: so there is one logarithm, and seldom an exponential.
std::optional<std::size_t> Placement::place(std::string_view node, std::string_view repo,
                                            std::uint64_t bytes,
                                            const std::vector<std::string>& taken_zones) const {
  const auto* us = find(node);
  if (!us || us->free_bytes < bytes) return std::nullopt;
  auto hash = hash_of(repo);
  auto distance =
      -std::log(uniform(hash, hashes_[static_cast<std::size_t>(us - candidates_.data())])) /
      weight_of(*us);
  bool we_share = shares_zone(*us, taken_zones);
  std::size_t before = 0;
  std::uint64_t budget = 0;
  double bound = 2;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto& other = candidates_[i];
    if (&other == us || other.free_bytes < bytes) continue;
    if (bool shares = shares_zone(other, taken_zones); shares != we_share) {
      before += we_share ? 1 : 0;
      continue;
    }
    if (bound > 1 || other.budget_bytes != budget) {
      budget = other.budget_bytes;
      bound = std::exp(-distance * weight_of(other));
    }
    before += uniform(hash, hashes_[i]) > bound ? 1 : 0;
  }
  return before;
}

std::vector<std::string> order_for(std::string_view repo, const std::vector<Candidate>& candidates,
                                   std::uint64_t bytes,
                                   const std::vector<std::string>& taken_zones) {
  return Placement(candidates).order(repo, bytes, taken_zones);
}

}  // namespace warren::fleet
