#include "services/board/watch/archive.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::board;
using namespace warren::watch;

namespace {

const std::string id1 = "11111111-1111-4111-8111-111111111111";
const std::string id2 = "22222222-2222-4222-8222-222222222222";

Artefact artefact() {
  Artefact artefact;
  artefact.id = artefact.logical_id = id1;
  artefact.type = "GoalDefined";
  artefact.payload = "grün\n\"日本\"";
  artefact.produced_by_role = "user";
  artefact.created_at = UnixTime(std::chrono::milliseconds(1'761'912'000'007));
  return artefact;
}

ArchivedClaim archived() {
  Claim claim;
  claim.id = id2;
  claim.artefact_id = id1;
  claim.status = ClaimStatus::pending_exclusive;
  claim.granted_exclusive_agent = "coder";
  claim.grant_queue = GrantQueueEntry{UnixTime(std::chrono::milliseconds(5)), "coder", 0};
  return {claim, UnixTime(std::chrono::milliseconds(7)), true, {{"coder", BidType::exclusive}}};
}

std::string refusal(std::string_view text) {
  auto line = decode(text);
  REQUIRE(!line);
  CHECK(line.error().code == Errc::invalid);
  return line.error().what;
}

}  // namespace

TEST_CASE("what is written to an archive is read back as it was") {
  auto head = decode(encode(ArchiveHead{"demo"}));
  REQUIRE(head);
  CHECK(std::get<ArchiveHead>(*head).instance == "demo");
  auto goal = decode(encode(artefact()));
  REQUIRE(goal);
  CHECK(std::get<Artefact>(*goal) == artefact());
  auto line = decode(encode(archived()));
  REQUIRE(line);
  const auto& claim = std::get<ArchivedClaim>(*line);
  CHECK(claim.claim == archived().claim);
  CHECK(claim.created_at == archived().created_at);
  CHECK(claim.is_current);
  CHECK(claim.bids == archived().bids);
  auto queued =
      decode(encode(ArchivedQueueing{"coder", id2, UnixTime(std::chrono::milliseconds(5))}));
  REQUIRE(queued);
  CHECK(std::get<ArchivedQueueing>(*queued).claim_id == id2);
  auto end = decode(encode(ArchiveEnd{3, 4}));
  REQUIRE(end);
  CHECK(std::get<ArchiveEnd>(*end).claims == 4);
}

TEST_CASE("a line that cannot be read is refused, and says why") {
  CHECK(refusal("").contains("no JSON"));
  CHECK(refusal("[]").contains("no JSON"));
  CHECK(refusal("{}").contains("neither"));
  CHECK(refusal(R"({"format":"tar","version":1,"instance":"x"})").contains("format"));
  CHECK(refusal(R"({"format":"warren-board","version":2,"instance":"x"})").contains("version 1"));
  CHECK(refusal(R"({"artefact":{"id":"x"}})").contains("artefact: "));
  CHECK(refusal(R"({"artefact":null})").contains("no object"));
  CHECK(refusal(R"({"claim":{"id":")" + id1 + R"(","artefact_id":")" + id2 +
                R"(","status":"asleep"},"current":true})")
            .contains("status"));
  CHECK(refusal(R"({"queued":{"role":"coder"}})").contains("claim_id"));
  CHECK(refusal(R"({"end":{"artefacts":-1,"claims":0}})").contains("end"));
}

TEST_CASE("an archive has its head first, its end last, and nothing twice") {
  ArchiveCheck check;
  CHECK(!check.ended());
  CHECK(!check.next(artefact()));
  CHECK(check.next(ArchiveHead{"demo"}));
  CHECK(!check.next(ArchiveHead{"demo"}));
  CHECK(!check.next(ArchivedQueueing{"coder", id2, {}}));
  CHECK(check.next(archived()));
  CHECK(!check.next(archived()));
  CHECK(check.next(ArchivedQueueing{"coder", id2, {}}));
  CHECK(check.next(artefact()));
  CHECK(!check.next(artefact()));
  CHECK(!check.ended());
  auto wrong_end = check;
  CHECK(!wrong_end.next(ArchiveEnd{2, 1}));
  CHECK(check.next(ArchiveEnd{1, 1}));
  CHECK(check.ended());
  CHECK(!check.next(artefact()));
}
