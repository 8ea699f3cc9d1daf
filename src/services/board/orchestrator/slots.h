#pragma once
// Who has an exclusive grant, and who waits for one: so that no role has more than it may have.
//
// It is made of the claims themselves, so it is true after a restart as soon as all open claims
// were noted. The longest waiting come first; of those who wait equally long, the first by name.
#include <map>
#include <set>
#include <string>
#include <utility>

#include "services/board/orchestrator/terms.h"
#include "services/board/store/types.h"

namespace warren::orchestrator {

class Slots {
 public:
  explicit Slots(const std::map<std::string, RoleTerms>& roles);

  // What a claim is or is about to become; one that is closed has nothing. Returns the claims that
  // wait and may be granted now.
  board::Words note(const board::Claim& claim);
  // Whether the role may grant this claim now.
  bool is_free(const std::string& role, const std::string& claim_id) const;
  // The roles that may not.
  std::set<std::string> busy(const std::string& claim_id) const;

 private:
  using Waiting = std::pair<board::UnixTime, std::string>;  // since when, claim
  struct Role {
    std::size_t limit = 0;
    std::set<std::string> granted;
    std::set<Waiting> waiting;
    std::map<std::string, board::UnixTime> since;  // of those who wait
    std::size_t free() const { return limit > granted.size() ? limit - granted.size() : 0; }
  };
  std::map<std::string, Role> roles_;  // those that have a limit
};

}  // namespace warren::orchestrator
