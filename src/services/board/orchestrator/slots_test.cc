#include "services/board/orchestrator/slots.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::orchestrator;
using namespace warren::board;
using namespace std::chrono_literals;

namespace {

Claim granted(const std::string& id, const std::string& role) {
  Claim claim;
  claim.id = id;
  claim.status = ClaimStatus::pending_exclusive;
  claim.granted_exclusive_agent = role;
  return claim;
}

Claim waiting(const std::string& id, const std::string& role, UnixTime since) {
  auto claim = granted(id, "");
  claim.grant_queue = GrantQueueEntry{since, role};
  return claim;
}

Claim over(const std::string& id) {
  Claim claim;
  claim.id = id;
  claim.status = ClaimStatus::complete;
  return claim;
}

}  // namespace

TEST_CASE("a role has no more grants than it may have, and one without a limit any number") {
  Slots slots({{"coder", {2, false, ""}}, {"writer", {}}});
  for (const auto* id : {"a", "b", "c"}) CHECK(slots.note(granted(id, "writer")).empty());
  CHECK(slots.is_free("writer", "d"));
  CHECK(slots.is_free("coder", "d"));
  slots.note(granted("e", "coder"));
  CHECK(slots.is_free("coder", "d"));
  slots.note(granted("f", "coder"));
  CHECK(!slots.is_free("coder", "d"));
  CHECK(slots.busy("d") == std::set<std::string>{"coder"});
  CHECK(slots.is_free("coder", "f"));  // has it
  auto assigned = granted("g", "coder");
  assigned.status = ClaimStatus::pending_assignment;
  slots.note(over("f"));
  slots.note(assigned);
  CHECK(!slots.is_free("coder", "d"));
}

TEST_CASE("what becomes free is for those who wait longest") {
  Slots slots({{"coder", {1, false, ""}}});
  slots.note(granted("a", "coder"));
  CHECK(slots.note(waiting("late", "coder", UnixTime(9ms))).empty());
  CHECK(slots.note(waiting("early", "coder", UnixTime(5ms))).empty());
  CHECK(slots.note(over("a")) == Words{"early"});
  CHECK(slots.is_free("coder", "early"));
  CHECK(!slots.is_free("coder", "late"));
  CHECK(!slots.is_free("coder", "new"));
  slots.note(granted("early", "coder"));
  CHECK(!slots.is_free("coder", "late"));
  // One that is ended while it waits does not stand in the way.
  slots.note(waiting("last", "coder", UnixTime(10ms)));
  slots.note(over("late"));
  CHECK(slots.note(over("early")) == Words{"last"});
  // Nor does it keep the next one waiting, when it was first in line and its place was free.
  slots.note(waiting("next", "coder", UnixTime(11ms)));
  CHECK(slots.note(over("last")) == Words{"next"});
  slots.note(over("next"));
  CHECK(slots.is_free("coder", "new"));
}
