#include "services/board/orchestrator/open_claims.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::orchestrator;
using namespace warren::board;
using namespace std::chrono_literals;

namespace {

Claim claim_called(const std::string& id) {
  Claim claim;
  claim.id = id;
  claim.artefact_id = "target of " + id;
  return claim;
}

OpenClaims with_claims(const Words& ids) {
  OpenClaims open{OrchestratorTerms()};
  for (const auto& id : ids) open.add(claim_called(id)).is_known = true;
  return open;
}

Part child(const std::string& id) {
  Part part;
  part.id = id;
  part.role = "coder";
  return part;
}

Words turns(OpenClaims& open) {
  Words ids;
  while (auto id = open.next()) {
    open.looked(*id);
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace

TEST_CASE("a claim of which something was heard comes before those that a sweep looks at") {
  auto open = with_claims({"a", "b", "c"});
  for (const auto* id : {"a", "b", "c"}) open.check(id);
  open.on_bid("c", "coder", BidType::claim);
  open.on_bid("c", "writer", BidType::claim);
  open.on_bid("nobody's", "writer", BidType::claim);
  CHECK(turns(open) == Words{"c", "a", "b"});
  CHECK(turns(open).empty());
}

TEST_CASE("what is heard during a look has the claim looked at again, once") {
  auto open = with_claims({"a"});
  open.look_at("a");
  REQUIRE(open.next() == "a");
  open.on_bid("a", "coder", BidType::claim);
  open.on_child(child("one"), {"target of a"});
  CHECK(!open.next());  // one look at a time
  CHECK(open.find("a")->facts.bids.size() == 1);
  CHECK(open.find("a")->facts.children.size() == 1);
  open.looked("a");
  CHECK(turns(open) == Words{"a"});
}

TEST_CASE("what is heard while a claim is read has it read again") {
  auto open = with_claims({"a"});
  open.doubt("a");
  auto* claim = open.find("a");
  CHECK(!claim->is_known);
  REQUIRE(open.next() == "a");
  claim->is_outdated = false;  // reading begins
  open.on_bid("a", "coder", BidType::claim);
  CHECK(claim->is_outdated);
  CHECK(claim->facts.bids.empty());  // it is in what will be read
  open.looked("a");
  CHECK(turns(open) == Words{"a"});
}

TEST_CASE("a result is taken once, and only by the claims on its sources") {
  auto open = with_claims({"a", "b"});
  for (int i = 0; i < 2; ++i) open.on_child(child("one"), {"target of b", "target of nobody"});
  CHECK(turns(open) == Words{"b"});
  CHECK(open.find("b")->facts.children.size() == 1);
  CHECK(open.find("a")->facts.children.empty());
  open.remove("b");
  CHECK(!open.has_claim_on("target of b"));
  open.on_child(child("two"), {"target of b"});
  CHECK(turns(open).empty());
}

TEST_CASE("a claim is looked at when its time has come, and after a gap in any case") {
  auto open = with_claims({"a", "b"});
  open.look_later("a", Clock::time_point(5ms));
  open.look_later("b", Clock::time_point(7ms));
  open.look_later("b", Clock::time_point(6ms));
  CHECK(open.next_wake() == Clock::time_point(5ms));
  open.wake(Clock::time_point(4ms));
  CHECK(turns(open).empty());
  open.wake(Clock::time_point(6ms));
  CHECK(turns(open) == Words{"a", "b"});
  CHECK(open.next_wake() == Clock::time_point::max());
  open.look_later("a", Clock::time_point(9ms));
  open.remove("a");
  CHECK(open.next_wake() == Clock::time_point::max());
  open.find("b")->facts.told_at = Clock::time_point(1ms);
  open.doubt_all();
  CHECK(!open.find("b")->is_known);
  CHECK(!open.find("b")->facts.told_at);
  CHECK(turns(open) == Words{"b"});
}
