#include "services/board/store/types.h"

#include <doctest/doctest.h>

#include "services/board/store/keys.h"

using namespace warren;
using namespace std::chrono_literals;
using namespace warren::board;

namespace {

const std::string id = "0b54e9a1-7c4f-4d55-9a3e-0c1f5b2d6e7f";

Artefact artefact() {
  Artefact a;
  a.id = a.logical_id = id;
  a.type = "GoalDefined";
  a.produced_by_role = "user";
  return a;
}

Claim claim() {
  Claim c;
  c.id = c.artefact_id = id;
  return c;
}

template <class T, class Change>
std::string refusal(T value, Change change) {
  change(value);
  auto checked = check(value);
  REQUIRE(!checked);
  CHECK(checked.error().code == Errc::invalid);
  return checked.error().what;
}

}  // namespace

TEST_CASE("names are spelled as in Redis, and read back") {
  CHECK(name(StructuralType::terminal) == "Terminal");
  CHECK(name(ClaimStatus::pending_assignment) == "pending_assignment");
  CHECK(name(BidType::claim) == "claim");
  CHECK(name(Phase::parallel) == "parallel");
  for (auto status : claim_statuses) CHECK(parse_claim_status(name(status)) == status);
  CHECK(parse_structural_type("Failure") == StructuralType::failure);
  CHECK(!parse_structural_type("failure"));
  CHECK(!parse_claim_status("pending_consensus"));
  CHECK(!parse_bid_type(""));
  CHECK(!parse_phase("claim"));
  CHECK(is_open(ClaimStatus::pending_assignment));
  CHECK(!is_open(ClaimStatus::complete));
  CHECK(!is_open(ClaimStatus::terminated));
}

TEST_CASE("a UUID is taken in every form that the Go program takes, and in no other") {
  CHECK(canonical_uuid(id) == id);
  CHECK(canonical_uuid("0B54E9A1-7C4F-4D55-9A3E-0C1F5B2D6E7F") == id);
  CHECK(canonical_uuid("urn:uuid:" + id) == id);
  CHECK(canonical_uuid("{" + id + "}") == id);
  CHECK(canonical_uuid("0b54e9a17c4f4d559a3e0c1f5b2d6e7f") == id);
  for (std::string bad :
       {"", "x", "0b54e9a1", "0b54e9a1-7c4f-4d55-9a3e-0c1f5b2d6e7",
        "0b54e9a1-7c4f-4d55-9a3e-0c1f5b2d6e7g", "0b54e9a1_7c4f-4d55-9a3e-0c1f5b2d6e7f",
        "0b54e9a1-7c4f-4d55-9a3e-0c1f5b2d", "(0b54e9a1-7c4f-4d55-9a3e-0c1f5b2d6e7f)"})
    CHECK(!canonical_uuid(bad));
}

TEST_CASE("what is written is checked: ids, names and every length") {
  CHECK(check(artefact()));
  CHECK(refusal(artefact(), [](Artefact& a) { a.id = "x"; }) == R"(id: "x" is no UUID)");
  CHECK(refusal(artefact(), [](Artefact& a) {
          a.logical_id[0] = 'A', a.logical_id[1] = 'A';
        }).contains("must be written aa54e9a1"));
  CHECK(refusal(artefact(), [](Artefact& a) { a.version = 0; }).contains("version"));
  CHECK(refusal(artefact(), [](Artefact& a) { a.type = ""; }) == "type: must not be empty");
  CHECK(refusal(artefact(), [](Artefact& a) { a.type = "\xff"; }).contains("UTF-8"));
  CHECK(refusal(artefact(), [](Artefact& a) { a.produced_by_role = ""; }).contains("role"));
  CHECK(refusal(artefact(), [](Artefact& a) { a.produced_by_role.assign(256, 'a'); }) ==
        "produced_by_role: 256 bytes are more than 255");
  CHECK(refusal(artefact(), [](Artefact& a) {
          a.payload.resize(limits::payload + 1);
        }).contains("payload"));
  CHECK(refusal(artefact(), [](Artefact& a) {
          a.source_artefacts = {id, "y"};
        }).contains("source_artefacts"));
  CHECK(refusal(artefact(), [](Artefact& a) { a.source_artefacts.assign(1025, id); }) ==
        "source_artefacts: 1025 entries are more than 1024");
  CHECK(refusal(artefact(), [](Artefact& a) { a.created_at -= 1ms; }).contains("created_at_ms"));

  CHECK(check(claim()));
  CHECK(refusal(claim(), [](Claim& c) { c.artefact_id = ""; }).contains("artefact_id"));
  CHECK(refusal(claim(), [](Claim& c) { c.granted_review_agents = {""}; }).contains("review"));
  CHECK(refusal(claim(), [](Claim& c) {
          c.termination_reason.resize(limits::text + 1);
        }).contains("termination_reason"));
  CHECK(refusal(claim(), [](Claim& c) { c.grant_queue.emplace(); }).contains("grant_queue"));
  CHECK(refusal(claim(), [](Claim& c) {
          c.phase_state.emplace().received["r"] = "no";
        }).contains("phase_state.received"));
  CHECK(refusal(claim(), [](Claim& c) {
          c.status = ClaimStatus::pending_exclusive;
          c.artefact_expected = true;
          c.phase_state.emplace();
        }).contains("granted_agents"));
}

TEST_CASE("keys are those of the Go program; in a cluster all of an instance are in one slot") {
  auto keys = BoardKeys::create("holt", "demo", Layout::plain);
  REQUIRE(keys);
  CHECK(keys->artefact(id) == "holt:demo:artefact:" + id);
  CHECK(keys->claim(id) == "holt:demo:claim:" + id);
  CHECK(keys->bids(id) == "holt:demo:claim:" + id + ":bids");
  CHECK(keys->claim_by_artefact(id) == "holt:demo:claim_by_artefact:" + id);
  CHECK(keys->thread(id) == "holt:demo:thread:" + id);
  CHECK(keys->grant_queue("coder") == "holt:demo:grant_queue:coder");
  CHECK(keys->artefact_events() == "holt:demo:artefact_events");
  CHECK(keys->agent_events("coder") == "holt:demo:agent:coder:events");
  CHECK(keys->artefacts("lock") == "holt:demo:x:type:lock:artefacts");
  CHECK(keys->all("agent:a*") == "holt:demo:agent:a\\**");

  auto tagged = BoardKeys::create("sett", "demo", Layout::cluster);
  REQUIRE(tagged);
  CHECK(tagged->thread(id) == "sett:{demo}:thread:" + id);
  CHECK(tagged->all() == "sett:{demo}:*");
}

TEST_CASE("a prefix or an instance that cannot stand in a key is refused") {
  for (std::string bad : {"", "a:b", "a*", "{a}", "a b", "a\n"})
    CHECK(!BoardKeys::create(bad, "demo", Layout::plain));
  for (std::string bad : {"", "-a", "A", "a:b", "a_b", "{a}", "*"})
    CHECK(!BoardKeys::create("holt", bad, Layout::plain));
  CHECK(!BoardKeys::create("holt", std::string(64, 'a'), Layout::plain));
  CHECK(BoardKeys::create("holt", "default-1", Layout::plain));
}
