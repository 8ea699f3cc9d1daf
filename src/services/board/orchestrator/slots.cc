#include "services/board/orchestrator/slots.h"

#include <algorithm>

namespace warren::orchestrator {

using namespace board;

Slots::Slots(const std::map<std::string, RoleTerms>& roles) {
  for (const auto& [role, terms] : roles)
    if (terms.max_concurrent > 0)
      roles_[role].limit = static_cast<std::size_t>(terms.max_concurrent);
}

Words Slots::note(const Claim& claim) {
  bool is_exclusive = claim.status == ClaimStatus::pending_exclusive ||
                      claim.status == ClaimStatus::pending_assignment;
  Words next;
  for (auto& [name, role] : roles_) {
    bool had = role.granted.erase(claim.id) > 0;
    if (auto since = role.since.extract(claim.id)) {
      role.waiting.erase({since.mapped(), claim.id});
      had = true;  // a place in line: the next one may be its turn
    }
    if (is_exclusive && claim.granted_exclusive_agent == name) {
      role.granted.insert(claim.id);
    } else if (is_exclusive && claim.grant_queue && claim.grant_queue->agent_name == name) {
      role.waiting.emplace(claim.grant_queue->paused_at, claim.id);
      role.since[claim.id] = claim.grant_queue->paused_at;
    }
    if (!had || role.granted.contains(claim.id) || role.since.contains(claim.id)) continue;
    for (auto each = role.waiting.begin(); each != role.waiting.end() && next.size() < role.free();
         ++each)
      next.push_back(each->second);
  }
  return next;
}

bool Slots::is_free(const std::string& name, const std::string& claim_id) const {
  auto found = roles_.find(name);
  if (found == roles_.end() || found->second.granted.contains(claim_id)) return true;
  const auto& role = found->second;
  auto ahead = std::size_t(0);
  for (auto each = role.waiting.begin(); each != role.waiting.end() && ahead < role.free();
       ++each) {
    if (each->second == claim_id) return true;
    ++ahead;
  }
  return ahead < role.free();
}

std::set<std::string> Slots::busy(const std::string& claim_id) const {
  std::set<std::string> roles;
  for (const auto& [name, role] : roles_)
    if (!is_free(name, claim_id)) roles.insert(name);
  return roles;
}

}  // namespace warren::orchestrator
