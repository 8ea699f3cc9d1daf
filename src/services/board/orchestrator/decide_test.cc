// What an orchestrator decides, as lists of facts.
#include "services/board/orchestrator/decide.h"

#include <doctest/doctest.h>

#include "base/uuid.h"

using namespace warren;
using namespace warren::orchestrator;
using namespace warren::board;
using namespace std::chrono_literals;

namespace {

constexpr Clock::time_point t0(50s);
constexpr UnixTime wall_time(1'000'000ms);

OrchestratorTerms three_roles() {
  OrchestratorTerms terms;
  terms.roles = {{"coder", {}}, {"reviewer", {}}, {"writer", {}}};
  terms.bid_time = 1000ms;
  return terms;
}

Facts fresh_claim() {
  Facts facts;
  facts.claim.id = uuid4();
  facts.claim.artefact_id = uuid4();
  facts.target.id = facts.claim.artefact_id;
  facts.target.role = "user";
  facts.now = facts.told_at.emplace(t0);
  facts.stamp = wall_time;
  return facts;
}

Facts with_bids(Bids bids) {
  auto facts = fresh_claim();
  facts.bids = std::move(bids);
  return facts;
}

const Bids all_ignore{
    {"coder", BidType::ignore}, {"reviewer", BidType::ignore}, {"writer", BidType::ignore}};

Bids bids(BidType coder, BidType reviewer, BidType writer) {
  return {{"coder", coder}, {"reviewer", reviewer}, {"writer", writer}};
}

Part child_by(const std::string& role, const std::string& payload = "{}",
              StructuralType type = StructuralType::standard) {
  Artefact artefact;
  artefact.id = uuid4();
  artefact.produced_by_role = role;
  artefact.payload = payload;
  artefact.structural_type = type;
  return part_of(artefact);
}

// The facts after what was decided was done.
Facts after(Facts facts, const Decision& decision) {
  REQUIRE(decision.changed);
  facts.claim = *decision.changed;
  return facts;
}

Words events(const Decision& decision) {
  Words names;
  for (const auto& announcement : decision.announcements)
    if (const auto* event = std::get_if<WorkflowEvent>(&announcement)) names.push_back(event->name);
  return names;
}

Words granted_to(const Decision& decision) {
  Words roles;
  for (const auto& announcement : decision.announcements)
    if (const auto* grant = std::get_if<Grant>(&announcement))
      roles.push_back(grant->role + "/" + std::string(name(grant->type)));
  return roles;
}

bool tells_claim(const Decision& decision) {
  return std::ranges::any_of(decision.announcements, [](const auto& announcement) {
    return std::holds_alternative<Claim>(announcement);
  });
}

std::string reason(const Decision& decision) {
  for (const auto& announcement : decision.announcements)
    if (const auto* event = std::get_if<WorkflowEvent>(&announcement))
      if (event->name == "claim_completed" || event->name == "claim_terminated")
        return std::string(event->data.at("reason").as_string());
  return "";
}

}  // namespace

TEST_CASE("a claim waits for the bids of all roles, until the time for bids is over") {
  auto terms = three_roles();
  auto facts = with_bids({{"coder", BidType::exclusive},
                          {"stranger", BidType::exclusive},
                          {"another", BidType::claim}});
  auto decision = decide(facts, terms);
  CHECK(decision.is_nothing());
  CHECK(decision.look_again == t0 + 1000ms);
  facts.now = t0 + 999ms;
  facts.stamp += 1h;  // somebody set the clock of the machine
  CHECK(decide(facts, terms).is_nothing());

  facts.now = t0 + 1000ms;
  decision = decide(facts, terms);
  REQUIRE(decision.changed);
  CHECK(decision.changed->granted_exclusive_agent == "coder");
  CHECK(decision.changed->phase_state->all_bids ==
        bids(BidType::exclusive, BidType::ignore, BidType::ignore));
  CHECK(events(decision) == Words{"claim_granted", "bids_missing"});

  terms.missing_bids = MissingBids::wait;
  decision = decide(facts, terms);
  CHECK(!decision.changed);
  CHECK(tells_claim(decision));  // those who missed it hear it again
  CHECK(decision.tells_agents);
  CHECK(decision.look_again == facts.now + 1000ms);
}

TEST_CASE(
    "a bid that comes after the time for bids, or is changed then, counts in no later phase") {
  auto terms = three_roles();
  terms.roles["painter"] = {};
  auto facts = with_bids({{"coder", BidType::exclusive}, {"reviewer", BidType::review}});
  facts.now = t0 + 1000ms;
  auto decision = decide(facts, terms);
  CHECK(granted_to(decision) == Words{"reviewer/review"});
  CHECK(events(decision) == Words{"claim_granted", "bids_missing"});
  facts = after(facts, decision);
  facts.bids["writer"] = BidType::claim;
  facts.bids["painter"] = BidType::review;
  facts.bids["coder"] = BidType::claim;
  CHECK(decide(facts, terms).is_nothing());

  facts.children = {child_by("reviewer")};
  auto queued = facts;
  decision = decide(facts, terms);
  CHECK(granted_to(decision) == Words{"coder/exclusive"});
  auto counted = bids(BidType::exclusive, BidType::review, BidType::ignore);
  counted["painter"] = BidType::ignore;
  CHECK(decision.changed->phase_state->all_bids == counted);

  // Nor behind parallel work.
  auto parallel = with_bids(bids(BidType::claim, BidType::ignore, BidType::ignore));
  parallel = after(parallel, decide(parallel, three_roles()));
  parallel.bids["writer"] = BidType::exclusive;
  parallel.children = {child_by("coder")};
  CHECK(decide(parallel, three_roles()).changed->status == ClaimStatus::complete);

  // Nor while the claim waits for a worker.
  queued.busy = {"coder"};
  decision = decide(queued, terms);
  CHECK(events(decision) == Words{"review_approved", "claim_queued"});
  queued = after(queued, decision);
  queued.bids["coder"] = BidType::ignore;
  queued.bids["painter"] = BidType::exclusive;
  queued.busy.clear();
  CHECK(granted_to(decide(queued, terms)) == Words{"coder/exclusive"});
}

TEST_CASE("what is granted is not granted again, however often it is looked at") {
  auto terms = three_roles();
  for (auto bid : {BidType::review, BidType::claim, BidType::exclusive}) {
    auto facts = with_bids(bids(bid, BidType::ignore, BidType::exclusive));
    facts = after(facts, decide(facts, terms));
    for (auto later : {0s, 1s, 3600s}) {
      facts.now = t0 + later;
      facts.bids["reviewer"] = BidType::exclusive;
      CHECK(decide(facts, terms).is_nothing());
    }
    // Whoever takes over reminds the agent, and changes nothing.
    facts.told_at.reset();
    auto decision = decide(facts, terms);
    CHECK(!decision.changed);
    CHECK(granted_to(decision) == Words{"coder/" + std::string(name(bid))});
    CHECK(events(decision).empty());
  }
}

TEST_CASE("whoever takes over tells the claim again, if somebody has not bid") {
  auto terms = three_roles();
  auto facts = with_bids({{"coder", BidType::exclusive}});
  facts.told_at.reset();
  auto decision = decide(facts, terms);
  CHECK(tells_claim(decision));
  CHECK(!decision.changed);
  CHECK(decision.look_again == t0 + 1000ms);
  facts.bids = all_ignore;
  facts.bids["writer"] = BidType::claim;
  decision = decide(facts, terms);
  CHECK(!tells_claim(decision));
  CHECK(granted_to(decision) == Words{"writer/claim"});
}

TEST_CASE("review comes before parallel work, and that before exclusive work") {
  auto terms = three_roles();
  auto facts = with_bids(bids(BidType::exclusive, BidType::review, BidType::claim));
  auto decision = decide(facts, terms);
  CHECK(granted_to(decision) == Words{"reviewer/review"});
  REQUIRE(decision.changed);
  CHECK(decision.changed->status == ClaimStatus::pending_review);
  CHECK(decision.changed->granted_review_agents == Words{"reviewer"});
  CHECK(decision.changed->artefact_expected);
  CHECK(decision.changed->last_grant_agent == "reviewer");
  CHECK(decision.changed->phase_state->start_time == wall_time);
  facts = after(facts, decision);
  CHECK(decide(facts, terms).is_nothing());

  facts.children = {child_by("stranger"), child_by("reviewer", " [ ] ", StructuralType::review)};
  decision = decide(facts, terms);
  CHECK(granted_to(decision) == Words{"writer/claim"});
  CHECK(events(decision) == Words{"review_approved", "claim_granted"});
  CHECK(decision.changed->status == ClaimStatus::pending_parallel);
  facts = after(facts, decision);
  CHECK(decide(facts, terms).is_nothing());

  facts.children.push_back(child_by("writer"));
  decision = decide(facts, terms);
  CHECK(granted_to(decision) == Words{"coder/exclusive"});
  CHECK(decision.changed->status == ClaimStatus::pending_exclusive);
  CHECK(decision.changed->granted_exclusive_agent == "coder");
  facts = after(facts, decision);
  facts.children.push_back(child_by("coder"));
  decision = decide(facts, terms);
  CHECK(decision.changed->status == ClaimStatus::complete);
  CHECK(!decision.changed->artefact_expected);
  CHECK(decision.changed->phase_state->received.at("coder") == facts.children.back().id);
  CHECK(events(decision) == Words{"claim_completed"});
  CHECK(decide(after(facts, decision), terms).is_nothing());
}

TEST_CASE("of those who want to work alone, the first in byte order does") {
  auto terms = three_roles();
  terms.roles["Zoe"] = {};
  auto facts = with_bids(bids(BidType::exclusive, BidType::exclusive, BidType::ignore));
  facts.bids["Zoe"] = BidType::exclusive;
  CHECK(granted_to(decide(facts, terms)) == Words{"Zoe/exclusive"});
}

TEST_CASE("several work in parallel, and what came so far is written down") {
  auto terms = three_roles();
  auto facts = with_bids(bids(BidType::claim, BidType::ignore, BidType::claim));
  auto decision = decide(facts, terms);
  CHECK(granted_to(decision) == Words{"coder/claim", "writer/claim"});
  facts = after(facts, decision);
  facts.children = {child_by("writer")};
  decision = decide(facts, terms);
  REQUIRE(decision.changed);
  CHECK(decision.changed->status == ClaimStatus::pending_parallel);
  CHECK(decision.changed->phase_state->received.size() == 1);
  CHECK(decision.announcements.empty());
  facts = after(facts, decision);
  CHECK(decide(facts, terms).is_nothing());
  facts.told_at.reset();  // a successor reminds those who have not delivered, and only those
  CHECK(granted_to(decide(facts, terms)) == Words{"coder/claim"});
  facts.children.push_back(child_by("coder"));
  decision = decide(facts, terms);
  CHECK(decision.changed->status == ClaimStatus::complete);
}

TEST_CASE("what nobody bids for is complete") {
  auto terms = three_roles();
  auto decision = decide(with_bids(all_ignore), terms);
  REQUIRE(decision.changed);
  CHECK(decision.changed->status == ClaimStatus::complete);
  CHECK(decision.changed->phase_state->all_bids == all_ignore);
  CHECK(reason(decision) == "nobody bid for it");
  auto reviewed = with_bids(bids(BidType::ignore, BidType::review, BidType::ignore));
  reviewed = after(reviewed, decide(reviewed, terms));
  reviewed.children = {child_by("reviewer")};
  decision = decide(reviewed, terms);
  CHECK(decision.changed->status == ClaimStatus::complete);
  CHECK(events(decision) == Words{"review_approved", "claim_completed"});
  // Where nobody is configured it waits for somebody.
  CHECK(decide(with_bids({}), OrchestratorTerms()).is_nothing());
}

TEST_CASE("what nobody wants in time stays open, and whoever comes later has it") {
  auto terms = three_roles();
  terms.bid_time = 40s;
  auto facts = with_bids({{"coder", BidType::ignore}});
  facts.now = t0 + 40s;
  auto decision = decide(facts, terms);
  REQUIRE(decision.changed);
  CHECK(decision.changed->status == ClaimStatus::pending_review);
  CHECK(!decision.changed->phase_state);
  CHECK(decision.changed->untaken_since == wall_time);
  CHECK(is_untaken(*decision.changed));
  CHECK(events(decision) == Words{"claim_untaken"});
  CHECK(tells_claim(decision));  // an agent of the Go program bids on nothing else
  facts = after(facts, decision);
  facts.told_at = facts.now;
  decision = decide(facts, terms);
  CHECK(decision.is_nothing());
  CHECK(decision.look_again == facts.now + 40s);
  facts.now += 40s;
  decision = decide(facts, terms);
  CHECK(!decision.changed);
  CHECK(events(decision).empty());
  CHECK(tells_claim(decision));
  facts.told_at = facts.now;

  // Somebody comes: whoever comes with him has the time for bids, once.
  facts.now += 5s;
  facts.bids["writer"] = BidType::exclusive;
  decision = decide(facts, terms);
  REQUIRE(decision.changed);
  CHECK(decision.changed->untaken_since == UnixTime{});
  CHECK(granted_to(decision).empty());
  CHECK(tells_claim(decision));
  facts = after(facts, decision);
  facts.told_at = facts.now;
  CHECK(decide(facts, terms).look_again == facts.now + 40s);
  auto complete = facts;
  complete.bids["reviewer"] = BidType::review;
  CHECK(granted_to(decide(complete, terms)) == Words{"reviewer/review"});
  facts.now += 40s;
  decision = decide(facts, terms);
  CHECK(granted_to(decision) == Words{"writer/exclusive"});
  CHECK(events(decision) == Words{"claim_granted", "bids_missing"});
}

TEST_CASE("a claim is told anew at most every 30 s, however short the time for bids") {
  auto terms = three_roles();
  terms.bid_time = 10ms;
  auto facts = fresh_claim();
  facts.claim.untaken_since = wall_time;
  CHECK(decide(facts, terms).look_again == t0 + 30s);
}

TEST_CASE("a goal that all ignore stays open, and what came of one is complete then") {
  auto terms = three_roles();
  auto facts = with_bids(all_ignore);
  CHECK(decide(facts, terms).changed->status == ClaimStatus::complete);
  facts.target.is_goal = true;
  auto decision = decide(facts, terms);
  CHECK(decision.changed->status == ClaimStatus::pending_review);
  CHECK(events(decision) == Words{"claim_untaken"});
  CHECK(!decision.look_again);  // nobody is awaited
  facts = after(facts, decision);
  CHECK(decide(facts, terms).is_nothing());
  terms.roles["newcomer"] = {};  // the crew has changed
  facts.told_at.reset();
  CHECK(tells_claim(decide(facts, terms)));
  facts.bids["newcomer"] = BidType::exclusive;
  decision = decide(facts, terms);
  CHECK(granted_to(decision) == Words{"newcomer/exclusive"});
  CHECK(!is_untaken(*decision.changed));
}

TEST_CASE("a question that nobody takes is no goal that nobody took") {
  auto terms = three_roles();
  auto facts = with_bids(all_ignore);
  facts.target.structural_type = StructuralType::question;
  facts.target.is_goal = true;
  CHECK(decide(facts, terms).is_nothing());
  facts.bids.erase("coder");
  facts.now += 1h;
  CHECK(decide(facts, terms).is_nothing());
}

TEST_CASE("a review approves with an empty object or list, and with nothing else") {
  for (const auto* payload : {"{}", "[]", " {\n} ", "[ ]"})
    CHECK_MESSAGE(child_by("reviewer", payload).approves, payload);
  for (const auto* payload :
       {"", "null", "0", "\"\"", "false", "{\"a\":1}", "[1]", "{", "{}{}", "looks good", "[[]]"})
    CHECK_MESSAGE(!child_by("reviewer", payload).approves, payload);
}

TEST_CASE("a rejected claim ends, and whoever made the artefact is to rework it") {
  auto terms = three_roles();
  auto facts = with_bids(bids(BidType::review, BidType::review, BidType::exclusive));
  facts.target.role = "writer";
  facts = after(facts, decide(facts, terms));
  facts.children = {child_by("coder"), child_by("reviewer", "too short")};
  auto decision = decide(facts, terms);
  REQUIRE(decision.changed);
  CHECK(decision.changed->status == ClaimStatus::terminated);
  CHECK(decision.changed->termination_reason.contains(facts.children[1].id));
  CHECK(events(decision) == Words{"review_approved", "review_rejected", "claim_terminated"});
  REQUIRE(decision.feedback);
  CHECK(decision.feedback->status == ClaimStatus::pending_assignment);
  CHECK(decision.feedback->artefact_id == facts.target.id);
  CHECK(decision.feedback->granted_exclusive_agent == "writer");
  CHECK(decision.feedback->additional_context_ids == Words{facts.children[1].id});
  CHECK(!decision.failure);

  auto rework = facts;
  rework.claim = *decision.feedback;
  rework.claim.id = uuid4();
  CHECK(decide(rework, terms).is_nothing());
  rework.children.push_back(child_by("writer", "", StructuralType::review));
  CHECK(decide(rework, terms).is_nothing());
  rework.told_at.reset();
  CHECK(tells_claim(decide(rework, terms)));
  rework.children.push_back(child_by("writer"));
  CHECK(decide(rework, terms).changed->status == ClaimStatus::complete);
  rework.children.back().structural_type = StructuralType::failure;
  CHECK(decide(rework, terms).changed->status == ClaimStatus::terminated);
}

TEST_CASE("a review that was received and cannot be read does not approve") {
  auto terms = three_roles();
  auto facts = with_bids(bids(BidType::ignore, BidType::review, BidType::exclusive));
  facts.target.role = "writer";
  facts = after(facts, decide(facts, terms));
  facts.claim.phase_state->received["reviewer"] = uuid4();
  auto decision = decide(facts, terms);
  CHECK(events(decision) == Words{"review_rejected", "claim_terminated"});
  CHECK(decision.feedback);
}

TEST_CASE("after too many rejections, or without anybody to rework it, a claim ends as a failure") {
  auto terms = three_roles();
  auto facts = with_bids(bids(BidType::ignore, BidType::review, BidType::exclusive));
  facts = after(facts, decide(facts, terms));
  facts.children = {child_by("reviewer", "no")};
  auto decision = decide(facts, terms);  // the user made it
  REQUIRE(decision.failure);
  CHECK(decision.failure->type == "MissingAgentConfiguration");
  CHECK(decision.failure->source_artefacts == Words{facts.target.id});
  CHECK(decision.changed->termination_reason.contains("missing agent configuration"));
  CHECK(!decision.feedback);

  facts.target.role = "writer";
  facts.target.version = 3;
  CHECK(decide(facts, terms).feedback);
  facts.target.version = 4;
  decision = decide(facts, terms);
  REQUIRE(decision.failure);
  CHECK(decision.failure->type == "MaxIterationsExceeded");
  CHECK(decision.changed->termination_reason.contains("max review iterations"));
  CHECK(!decision.feedback);
  // Whoever was stopped after the first of the two steps does only the second.
  facts.children.push_back(child_by("orchestrator", "", StructuralType::failure));
  decision = decide(facts, terms);
  CHECK(!decision.failure);
  CHECK(decision.changed->status == ClaimStatus::terminated);
  terms.max_review_iterations = 0;
  CHECK(decide(facts, terms).feedback);
}

TEST_CASE("an agent that fails ends its claim, one that ends the workflow completes it") {
  auto terms = three_roles();
  for (auto bid : {BidType::review, BidType::claim, BidType::exclusive}) {
    auto facts = with_bids(bids(bid, BidType::ignore, BidType::ignore));
    facts = after(facts, decide(facts, terms));
    facts.children = {child_by("writer", "", StructuralType::failure)};
    CHECK(decide(facts, terms).is_nothing());  // it was not asked
    facts.children.push_back(child_by("coder", "exit code 3", StructuralType::failure));
    auto decision = decide(facts, terms);
    REQUIRE(decision.changed);
    CHECK(decision.changed->status == ClaimStatus::terminated);
    CHECK(decision.changed->termination_reason.contains("exit code 3"));
    CHECK(events(decision) == Words{"claim_terminated"});
    facts.children.back().structural_type = StructuralType::terminal;
    decision = decide(facts, terms);
    CHECK(decision.changed->status == ClaimStatus::complete);
    CHECK(events(decision) == Words{"claim_completed"});
  }
}

TEST_CASE("no agent works on what it made itself, unless it may; but it may review it") {
  auto terms = three_roles();
  for (auto bid : {BidType::claim, BidType::exclusive}) {
    auto facts = with_bids(bids(bid, BidType::ignore, BidType::ignore));
    facts.target.role = "coder";
    auto decision = decide(facts, terms);
    REQUIRE(decision.changed);
    CHECK(decision.changed->status == ClaimStatus::complete);
    terms.roles["coder"].works_on_own_output = true;
    CHECK(granted_to(decide(facts, terms)).size() == 1);
    terms.roles["coder"].works_on_own_output = false;
  }
  auto facts = with_bids(bids(BidType::review, BidType::ignore, BidType::ignore));
  facts.target.role = "coder";
  CHECK(granted_to(decide(facts, terms)) == Words{"coder/review"});
}

TEST_CASE("a claim whose worker is busy waits in the queue, and is granted when he is free") {
  auto terms = three_roles();
  auto facts = with_bids(bids(BidType::exclusive, BidType::ignore, BidType::exclusive));
  facts.busy = {"coder"};
  auto decision = decide(facts, terms);
  REQUIRE(decision.changed);
  CHECK(events(decision) == Words{"claim_queued"});
  CHECK(decision.changed->status == ClaimStatus::pending_exclusive);
  CHECK(decision.changed->granted_exclusive_agent == "");
  CHECK(!decision.changed->artefact_expected);
  CHECK(decision.changed->grant_queue->agent_name == "coder");
  CHECK(decision.changed->grant_queue->paused_at == wall_time);
  facts = after(facts, decision);
  facts.told_at.reset();
  facts.now += 1h;
  CHECK(decide(facts, terms).is_nothing());
  facts.busy.clear();
  decision = decide(facts, terms);
  CHECK(granted_to(decision) == Words{"coder/exclusive"});
  CHECK(!decision.changed->grant_queue);

  // Rework waits like any other work.
  Facts rework = fresh_claim();
  rework.target.role = "coder";
  rework.claim.status = ClaimStatus::pending_assignment;
  rework.busy = {"coder"};
  decision = decide(rework, terms);
  CHECK(events(decision) == Words{"claim_queued"});
  CHECK(decision.changed->status == ClaimStatus::pending_assignment);
  rework = after(rework, decision);
  CHECK(decide(rework, terms).is_nothing());
  rework.busy.clear();
  decision = decide(rework, terms);
  CHECK(granted_to(decision) == Words{"coder/exclusive"});
  CHECK(decision.changed->granted_exclusive_agent == "coder");
}

TEST_CASE("while it is paused nothing is granted, but work ends") {
  auto terms = three_roles();
  auto facts = with_bids(bids(BidType::exclusive, BidType::review, BidType::ignore));
  facts.target.role = "writer";
  facts.is_paused = true;
  CHECK(decide(facts, terms).is_nothing());
  facts.is_paused = false;
  facts = after(facts, decide(facts, terms));
  facts.is_paused = true;
  for (const auto* payload : {"{}", "no"}) {
    auto reviewed = facts;
    reviewed.children = {child_by("reviewer", payload)};
    auto decision = decide(reviewed, terms);
    REQUIRE(decision.changed);  // what came is written down
    CHECK(decision.changed->status == ClaimStatus::pending_review);
    CHECK(decision.announcements.empty());
    CHECK(!decision.feedback);
    reviewed = after(reviewed, decision);
    CHECK(decide(reviewed, terms).is_nothing());
    reviewed.is_paused = false;
    CHECK(!decide(reviewed, terms).is_nothing());
  }
  facts.children = {child_by("reviewer", "", StructuralType::failure)};
  CHECK(decide(facts, terms).changed->status == ClaimStatus::terminated);
  auto queued = with_bids(bids(BidType::exclusive, BidType::ignore, BidType::ignore));
  queued.busy = {"coder"};
  queued = after(queued, decide(queued, terms));
  queued.busy.clear();
  queued.is_paused = true;
  CHECK(decide(queued, terms).is_nothing());
  auto rework = fresh_claim();
  rework.target.role = "coder";
  rework.claim.status = ClaimStatus::pending_assignment;
  rework.is_paused = true;
  CHECK(decide(rework, terms).is_nothing());
  rework.is_paused = false;
  CHECK(granted_to(decide(rework, terms)) == Words{"coder/exclusive"});
}

TEST_CASE("a question waits for its answer, whoever gives it") {
  auto terms = three_roles();
  auto facts = with_bids(all_ignore);
  facts.target.structural_type = StructuralType::question;
  CHECK(decide(facts, terms).is_nothing());
  facts.children = {child_by("user", "42", StructuralType::answer)};
  auto decision = decide(facts, terms);
  REQUIRE(decision.changed);
  CHECK(decision.changed->status == ClaimStatus::complete);
  CHECK(reason(decision) == "user answered");
  facts.children.clear();
  facts.bids["coder"] = BidType::exclusive;
  CHECK(granted_to(decide(facts, terms)) == Words{"coder/exclusive"});
}

TEST_CASE("a workflow beyond its limits, or whose goal was cancelled, comes to an end") {
  auto terms = three_roles();
  auto facts = with_bids(bids(BidType::exclusive, BidType::ignore, BidType::ignore));
  facts.workflow = Standing{facts.target.id, 5, 10, t0 - 1s, false};
  terms.limits = {5, 10, 2s};
  auto decision = decide(facts, terms);
  CHECK(granted_to(decision) == Words{"coder/exclusive"});
  auto granted = after(facts, decision);
  CHECK(decide(granted, terms).look_again == t0 + 1s);
  auto failure_of = [&](const Facts& beyond) {
    auto ended = decide(beyond, terms);
    REQUIRE(ended.failure);
    CHECK(ended.failure->source_artefacts == Words{facts.target.id});
    CHECK(ended.changed->status == ClaimStatus::terminated);
    return ended.failure->type;
  };
  facts.workflow->depth = 6;
  CHECK(failure_of(facts) == "WorkflowTooDeep");
  facts.workflow->depth = 5;
  facts.workflow->artefacts = 11;
  CHECK(failure_of(facts) == "WorkflowTooLarge");
  granted.workflow->artefacts = 11;  // what was granted may end
  CHECK(decide(granted, terms).is_nothing());
  granted.now = t0 + 1s;
  CHECK(failure_of(granted) == "WorkflowTooLong");
  granted.now = t0;
  granted.workflow->is_cancelled = true;
  CHECK(decide(granted, terms).changed->status == ClaimStatus::terminated);
}

TEST_CASE("claims as the Go program leaves them are continued") {
  auto terms = three_roles();
  auto all = bids(BidType::exclusive, BidType::review, BidType::claim);
  // Granted, and stopped before the phase was written down.
  auto facts = with_bids(all);
  facts.told_at.reset();
  facts.claim.granted_review_agents = {"reviewer"};
  auto decision = decide(facts, terms);
  CHECK(granted_to(decision) == Words{"reviewer/review"});
  REQUIRE(decision.changed);
  CHECK(decision.changed->phase_state->granted_agents == Words{"reviewer"});
  facts.children = {child_by("reviewer")};
  CHECK(granted_to(decide(facts, terms)) == Words{"writer/claim"});
  // The status was written, the grant was not.
  facts = with_bids(all);
  facts.claim.status = ClaimStatus::pending_parallel;
  CHECK(granted_to(decide(facts, terms)) == Words{"writer/claim"});
  facts.claim.status = ClaimStatus::pending_exclusive;
  CHECK(granted_to(decide(facts, terms)) == Words{"coder/exclusive"});
  // Its queue leaves an empty name behind.
  facts.claim.phase_state = PhaseState{Phase::exclusive, {""}, {}, all, wall_time};
  CHECK(granted_to(decide(facts, terms)) == Words{"coder/exclusive"});
  // It never writes down what it received, and never ends what has no further phase.
  facts = with_bids(bids(BidType::ignore, BidType::ignore, BidType::claim));
  facts.claim.status = ClaimStatus::pending_parallel;
  facts.claim.granted_parallel_agents = {"writer"};
  facts.claim.phase_state = PhaseState{Phase::parallel, {"writer"}, {}, facts.bids, wall_time};
  facts.children = {child_by("writer")};
  CHECK(decide(facts, terms).changed->status == ClaimStatus::complete);
}

TEST_CASE("a claim that was granted to a role that is gone ends, unless it has delivered") {
  auto terms = three_roles();
  auto facts = with_bids(bids(BidType::claim, BidType::ignore, BidType::claim));
  facts = after(facts, decide(facts, terms));
  terms.roles.erase("writer");
  auto decision = decide(facts, terms);
  REQUIRE(decision.changed);
  CHECK(decision.changed->status == ClaimStatus::terminated);
  CHECK(decision.changed->termination_reason.contains("writer"));
  facts.children = {child_by("writer")};
  decision = decide(facts, terms);
  CHECK(decision.changed->status == ClaimStatus::pending_parallel);
}
