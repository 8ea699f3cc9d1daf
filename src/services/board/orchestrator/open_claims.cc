#include "services/board/orchestrator/open_claims.h"

#include <algorithm>

namespace warren::orchestrator {

using namespace board;

OpenClaim* OpenClaims::find(const std::string& claim_id) {
  auto found = claims_.find(claim_id);
  return found == claims_.end() ? nullptr : &found->second;
}

OpenClaim& OpenClaims::add(const Claim& claim) {
  auto [found, is_new] = claims_.try_emplace(claim.id);
  if (is_new) {
    found->second.facts.claim = claim;
    by_target_[claim.artefact_id].insert(claim.id);
    note(claim);
  }
  return found->second;
}

void OpenClaims::remove(const std::string& claim_id) {
  auto found = claims_.find(claim_id);
  if (found == claims_.end()) return;
  auto closed = std::move(found->second.facts.claim);
  timers_.erase({found->second.wake_at, claim_id});
  claims_.erase(found);
  leave_target(closed.artefact_id, claim_id);
  closed.id = claim_id;
  closed.status = ClaimStatus::complete;
  note(closed);
}

void OpenClaims::retarget(OpenClaim& open, const std::string& artefact_id) {
  auto& claim = open.facts.claim;
  if (claim.artefact_id == artefact_id) return;
  leave_target(claim.artefact_id, claim.id);
  by_target_[artefact_id].insert(claim.id);
  claim.artefact_id = artefact_id;
}

void OpenClaims::leave_target(const std::string& artefact_id, const std::string& claim_id) {
  auto target = by_target_.find(artefact_id);
  if (target != by_target_.end() && target->second.erase(claim_id) > 0 && target->second.empty())
    by_target_.erase(target);
}

Words OpenClaims::ids() const {
  Words ids;
  ids.reserve(claims_.size());
  for (const auto& [id, open] : claims_) ids.push_back(id);
  return ids;
}

void OpenClaims::note(const Claim& claim) {
  for (const auto& id : slots_.note(claim)) look_at(id);
}

void OpenClaims::on_bid(const std::string& claim_id, const std::string& role, BidType bid) {
  auto* open = find(claim_id);
  if (!open) return;
  if (open->is_known)
    open->facts.bids[role] = bid;
  else
    open->is_outdated = true;
  look_at(claim_id);
}

void OpenClaims::on_child(const Part& child, const Words& sources) {
  for (const auto& source : sources) {
    auto found = by_target_.find(source);
    if (found == by_target_.end()) continue;
    for (const auto& id : found->second) {
      auto& open = claims_.at(id);
      auto& children = open.facts.children;
      if (!open.is_known)
        open.is_outdated = true;
      else if (std::ranges::find(children, child.id, &Part::id) == children.end())
        children.push_back(child);
      look_at(id);
    }
  }
}

void OpenClaims::doubt(OpenClaim& open) {
  if (!open.is_known) open.is_outdated = true;
  open.is_known = false;
}

void OpenClaims::doubt(const std::string& claim_id) {
  auto* open = find(claim_id);
  if (!open) return;
  doubt(*open);
  look_at(claim_id);
}

void OpenClaims::check(const std::string& claim_id) {
  auto* open = find(claim_id);
  if (!open) return;
  doubt(*open);
  line_up(claim_id, *open, false);
}

void OpenClaims::doubt_all() {
  for (auto& [id, open] : claims_) {
    doubt(open);
    open.facts.told_at.reset();
  }
  look_at_all();
}

void OpenClaims::look_at(const std::string& claim_id) {
  if (auto* open = find(claim_id)) line_up(claim_id, *open, true);
}

void OpenClaims::look_at_all() {
  for (auto& [id, open] : claims_) line_up(id, open, false);
}

void OpenClaims::line_up(const std::string& claim_id, OpenClaim& open, bool is_urgent) {
  if (open.is_looked_at) {
    open.is_dirty = true;
  } else if (!open.is_in_line || (is_urgent && !open.is_urgent)) {
    open.is_in_line = true;
    open.is_urgent = is_urgent;
    (is_urgent ? urgent_ : patient_).push_back(claim_id);
  }
}

void OpenClaims::look_later(const std::string& claim_id, Clock::time_point time) {
  auto* open = find(claim_id);
  if (!open || open->wake_at == time) return;
  timers_.erase({open->wake_at, claim_id});
  open->wake_at = time;
  if (time != Clock::time_point::max()) timers_.emplace(time, claim_id);
}

std::optional<std::string> OpenClaims::next() {
  while (in_line() > 0) {
    auto& line = urgent_.empty() ? patient_ : urgent_;
    auto id = std::move(line.front());
    line.pop_front();
    auto* open = find(id);
    if (!open || !open->is_in_line) continue;  // it is over, or had its turn
    open->is_in_line = open->is_urgent = false;
    open->is_looked_at = true;
    open->is_dirty = false;
    return id;
  }
  return {};
}

void OpenClaims::looked(const std::string& claim_id) {
  auto* open = find(claim_id);
  if (!open) return;
  open->is_looked_at = false;
  if (open->is_dirty) look_at(claim_id);
}

void OpenClaims::wake(Clock::time_point now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    auto id = timers_.begin()->second;
    look_later(id, Clock::time_point::max());
    look_at(id);
  }
}

Clock::time_point OpenClaims::next_wake() const {
  return timers_.empty() ? Clock::time_point::max() : timers_.begin()->first;
}

}  // namespace warren::orchestrator
