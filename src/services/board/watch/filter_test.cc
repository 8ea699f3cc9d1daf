#include "services/board/watch/filter.h"

#include <doctest/doctest.h>

#include "services/board/watch/workflow.h"

using namespace warren;
using namespace warren::board;
using namespace warren::watch;

namespace {

constexpr auto noon = UnixTime(std::chrono::milliseconds(1'761'912'000'000));

Artefact artefact_of(std::string id, std::string type, std::string role, Words sources = {}) {
  Artefact artefact;
  artefact.id = std::move(id);
  artefact.type = std::move(type);
  artefact.produced_by_role = std::move(role);
  artefact.source_artefacts = std::move(sources);
  artefact.created_at = noon;
  return artefact;
}

Claim claim_of(std::string id, std::string artefact, std::string agent = "") {
  Claim claim;
  claim.id = std::move(id);
  claim.artefact_id = std::move(artefact);
  claim.granted_exclusive_agent = std::move(agent);
  return claim;
}

}  // namespace

TEST_CASE("both ends of a time belong to it, and a time that nobody knows fits") {
  Filter filter{.since = noon, .until = noon + 10s};
  CHECK(filter.fits_time(noon));
  CHECK(filter.fits_time(noon + 10s));
  CHECK(!filter.fits_time(noon - 1ms));
  CHECK(!filter.fits_time(noon + 10s + 1ms));
  CHECK(filter.fits_time({}));
}

TEST_CASE("all conditions must hold") {
  Filter filter{.type = "Code*", .agent = "coder"};
  CHECK(filter.fits(artefact_of("a", "CodeCommit", "coder")));
  CHECK(!filter.fits(artefact_of("a", "CodeCommit", "user")));
  CHECK(!filter.fits(artefact_of("a", "Goal", "coder")));
  CHECK(!Filter{.type = "[", .agent = ""}.fits(artefact_of("a", "[", "coder")));
  CHECK(Filter{}.is_empty());
  CHECK(!filter.is_empty());
}

TEST_CASE("claims and workflow events are filtered by the artefact and the agent they are about") {
  Filter by_type{.type = "Code*"}, by_agent{.agent = "coder"};
  Happening claim{noon, claim_of("c", "a")};
  CHECK(by_type.fits(claim, "CodeCommit"));
  CHECK(!by_type.fits(claim, "Goal"));
  CHECK(!by_type.fits(claim, ""));
  CHECK(!by_agent.fits(claim, ""));
  Happening granted{noon, claim_of("c", "a", "coder")};
  CHECK(by_agent.fits(granted, ""));
  Happening bid{noon, bid_submitted("coder", BidType::exclusive, "c")};
  CHECK(by_agent.fits(bid, ""));
  CHECK(by_type.fits(bid, "CodeCommit"));
  Happening other_bid{noon, bid_submitted("tester", BidType::exclusive, "c")};
  CHECK(!by_agent.fits(other_bid, ""));
  Happening review{noon, review_approved("coder", "a")};
  CHECK(by_agent.fits(review, ""));
  auto reworked_artefact = artefact_of("b", "CodeCommit", "coder");
  Happening reworked{noon, artefact_reworked(reworked_artefact, "a")};
  CHECK(by_agent.fits(reworked, ""));
  CHECK(by_type.fits(reworked, ""));
  Happening unknown{noon, WorkflowEvent{"moon_rose", {}}};
  CHECK(!by_agent.fits(unknown, ""));
  CHECK(Filter{}.fits(unknown, ""));
}

TEST_CASE("times are read from flags, in this order") {
  auto filter = parse_filter("1h", "30m", "T*", "coder", noon);
  REQUIRE(filter);
  CHECK(filter->since == noon - 1h);
  CHECK(filter->until == noon - 30min);
  auto swapped = parse_filter("30m", "1h", "", "", noon);
  REQUIRE(!swapped);
  CHECK(swapped.error().what.contains("not before --until"));
  CHECK(!parse_filter("1h", "1h", "", "", noon));
  auto wrong = parse_filter("soon", "", "", "", noon);
  REQUIRE(!wrong);
  CHECK(wrong.error().what.starts_with("--since: \"soon\""));
}

TEST_CASE("a workflow is a goal and what comes of it, up to its end") {
  Workflow workflow("goal");
  CHECK(workflow.takes({noon, artefact_of("goal", "GoalDefined", "user")}));
  CHECK(!workflow.takes({noon, artefact_of("other", "GoalDefined", "user")}));
  CHECK(workflow.takes({noon, claim_of("c1", "goal")}));
  CHECK(!workflow.takes({noon, claim_of("c9", "other")}));
  CHECK(workflow.takes({noon, bid_submitted("coder", BidType::exclusive, "c1")}));
  CHECK(!workflow.takes({noon, bid_submitted("coder", BidType::exclusive, "c9")}));
  CHECK(workflow.takes({noon, artefact_of("code", "CodeCommit", "coder", {"goal"})}));
  CHECK(workflow.takes({noon, review_approved("reviewer", "code")}));
  CHECK(workflow.state() == Workflow::State::open);
  auto end = artefact_of("end", "Done", "publisher", {"x", "code"});
  end.structural_type = StructuralType::terminal;
  CHECK(workflow.takes({noon, end}));
  CHECK(workflow.state() == Workflow::State::completed);
  Workflow failing("goal");
  auto failure = artefact_of("f", "ToolExecutionFailure", "coder", {"goal"});
  failure.structural_type = StructuralType::failure;
  CHECK(failing.takes({noon, failure}));
  CHECK(failing.state() == Workflow::State::failed);
}

TEST_CASE("history of an artefact tells what live events tell, under the same keys") {
  auto review = artefact_of("r", "Review", "critic", {"code"});
  review.structural_type = StructuralType::review;
  review.payload = " { } ";
  auto told = history_of(review);
  REQUIRE(told.size() == 2);
  CHECK(key_of(told[1]) == key_of({noon, review_approved("critic", "code")}));
  CHECK(std::get<WorkflowEvent>(told[1].what).name == "review_approved");
  for (auto payload : {"", "null", "0", "fix it", R"({"error":"x"})", "[1]", "{"}) {
    review.payload = payload;
    CHECK(std::get<WorkflowEvent>(history_of(review)[1].what).name == "review_rejected");
  }
  auto second = artefact_of("v2", "CodeCommit", "coder", {"v1"});
  second.version = 2;
  told = history_of(second);
  REQUIRE(told.size() == 2);
  CHECK(key_of(told[0]) == "artefact v2");
  CHECK(key_of(told[1]) == key_of({noon, artefact_reworked(second, "v1")}));
}
