// Events as the Go program publishes them, and the lines that they become.
#include "services/board/watch/lines.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::board;
using namespace warren::watch;

namespace {

const std::string id1 = "11111111-1111-4111-8111-111111111111";
const std::string id2 = "22222222-2222-4222-8222-222222222222";
constexpr auto noon = UnixTime(std::chrono::milliseconds(1'761'912'000'007));

Happening heard(const std::string& channel, const std::string& payload) {
  auto keys = BoardKeys::create("holt", "demo", Layout::plain);
  auto event = parse_event(*keys, "holt:demo:" + channel, payload);
  Happening happening{noon, {}};
  if (auto* bad = std::get_if<Malformed>(&event)) FAIL(bad->why);
  if (auto* artefact = std::get_if<Artefact>(&event)) happening.what = *artefact;
  if (auto* claim = std::get_if<Claim>(&event)) happening.what = *claim;
  if (auto* workflow = std::get_if<WorkflowEvent>(&event)) happening.what = *workflow;
  return happening;
}

std::string workflow_line(const std::string& name, const std::string& data) {
  return line_of(heard("workflow_events", R"({"event":")" + name + R"(","data":)" + data + "}"));
}

std::string artefact_json(const std::string& structural, int version) {
  return R"({"id":")" + id1 + R"(","logical_id":")" + id1 + R"(","version":)" +
         std::to_string(version) + R"(,"structural_type":")" + structural +
         R"(","type":"CodeCommit","payload":"a \u003cb\u003e","source_artefacts":null,)" +
         R"("produced_by_role":"Coder","created_at_ms":1761912000007})";
}

}  // namespace

TEST_CASE("artefacts and claims have the lines of the Go program") {
  CHECK(line_of(heard("artefact_events", artefact_json("Standard", 1))) ==
        "✨ Artefact created: by=Coder, type=CodeCommit, id=" + id1);
  CHECK(line_of(heard("artefact_events", artefact_json("Failure", 1))) ==
        "✨ Artefact created: by=Coder, type=CodeCommit, id=" + id1 + " (a <b>)");
  CHECK(line_of(heard("artefact_events", artefact_json("Terminal", 1))) ==
        "🎉 Workflow completed: Terminal artefact created (type=CodeCommit, id=" + id1 + ")");
  CHECK(line_of(heard("artefact_events", artefact_json("Review", 1))).empty());
  CHECK(line_of(heard("artefact_events", artefact_json("Standard", 2))).empty());
  CHECK(line_of(heard("claim_events",
                      R"({"id":")" + id2 + R"(","artefact_id":")" + id1 +
                          R"(","status":"pending_review","granted_review_agents":[],)"
                          R"("granted_parallel_agents":[],"granted_exclusive_agent":""})")) ==
        "⏳ Claim created: claim=" + id2 + ", artefact=" + id1 + ", status=pending_review");
}

TEST_CASE("workflow events have the lines of the Go program, and ours have some too") {
  CHECK(workflow_line("bid_submitted", R"({"agent_name":"A","bid_type":"claim","claim_id":"c"})") ==
        "🙋 Bid submitted: agent=A, claim=c, type=claim");
  CHECK(workflow_line(
            "claim_granted",
            R"({"agent_image_id":"","agent_name":"A","claim_id":"c","grant_type":"review"})") ==
        "🏆 Claim granted: agent=A, claim=c, type=review");
  CHECK(workflow_line("claim_granted",
                      R"({"agent_image_id":"coder@sha256:0123456789abcdef","agent_name":"A",)"
                      R"("claim_id":"c","grant_type":"exclusive"})") ==
        "🏆 Claim granted: agent=A@0123456789ab, claim=c, type=exclusive");
  CHECK(
      workflow_line(
          "claim_granted",
          R"({"agent_image_id":"process","agent_name":"A","claim_id":"c","grant_type":"review"})") ==
      "🏆 Claim granted: agent=A, claim=c, type=review");
  CHECK(workflow_line("review_approved", R"({"original_artefact_id":"u","reviewer_role":"R"})") ==
        "✅ Review Approved: by=R for artefact u");
  CHECK(workflow_line("review_rejected",
                      R"({"feedback":"no","original_artefact_id":"u","reviewer_role":"R"})") ==
        "❌ Review Rejected: by=R for artefact u");
  CHECK(workflow_line("feedback_claim_created",
                      R"({"feedback_claim_id":"f","iteration":2,"original_claim_id":"c",)"
                      R"("target_agent_role":"Coder"})") ==
        "🔄 Rework Assigned: to=Coder for claim f (iteration 2)");
  CHECK(workflow_line("artefact_reworked",
                      R"({"artefact_type":"T","logical_id":"l","new_artefact_id":"n",)"
                      R"("new_version":2,"previous_version_id":"p","produced_by_role":"Coder"})") ==
        "🔄 Artefact Reworked (v2): by=Coder, type=T, id=n");
  CHECK(workflow_line("claim_completed", R"({"claim_id":"c"})") == "🏁 Claim completed: claim=c");
  CHECK(workflow_line("claim_terminated", R"({"claim_id":"c","reason":"cancelled"})") ==
        "🛑 Claim terminated: claim=c (cancelled)");
  CHECK(workflow_line("claim_queued", R"({"claim_id":"c","reason":"2 of 2 workers are busy"})") ==
        "🚦 Claim queued: claim=c (2 of 2 workers are busy)");
  CHECK(workflow_line("bids_missing", R"({"claim_id":"c","agent_names":["A","B"]})") ==
        "⌛ Bids missing: claim=c, from=A, B");
  CHECK(
      workflow_line("claim_untaken", R"({"claim_id":"c","reason":"nobody bid for it in time"})") ==
      "💤 Nobody took it: claim=c (nobody bid for it in time)");
  for (const auto* ours : {"claim_retried", "goal_cancelled", "orchestrator_paused",
                           "orchestrator_resumed", "claim_queued", "claim_terminated"})
    CHECK_MESSAGE(!workflow_line(ours, "{}").contains("Unknown"), ours);
  CHECK(workflow_line("moon_rose\\u001b[2J", "null") == "❓ Unknown event: moon_rose?[2J");
  CHECK(workflow_line("bid_submitted", "null") == "🙋 Bid submitted: agent=, claim=, type=");
}

TEST_CASE("in JSON an event has data, name and time, and the end of a workflow is told as well") {
  auto artefact = json_lines(heard("artefact_events", artefact_json("Terminal", 1)));
  REQUIRE(artefact.size() == 2);
  CHECK(artefact[0] == R"({"data":{"id":")" + id1 + R"(","logical_id":")" + id1 +
                           R"(","version":1,"structural_type":"Terminal","type":"CodeCommit",)"
                           R"("payload":"a <b>","source_artefacts":[],"produced_by_role":"Coder",)"
                           R"("created_at_ms":1761912000007},"event":"artefact_created",)"
                           R"("timestamp":"2025-10-31T12:00:00.007Z"})");
  CHECK(artefact[1] ==
        R"({"data":{"artefact_id":")" + id1 +
            R"(","artefact_type":"CodeCommit","produced_by":"Coder"},)"
            R"("event":"workflow_completed","timestamp":"2025-10-31T12:00:00.007Z"})");
  auto unknown = json_lines(heard("workflow_events", R"({"event":"x","data":{"b":1,"a":[]}})"));
  REQUIRE(unknown.size() == 1);
  CHECK(unknown[0] ==
        R"({"data":{"b":1,"a":[]},"event":"x","timestamp":"2025-10-31T12:00:00.007Z"})");
}

TEST_CASE("an artefact is a row of the table, whatever is in it") {
  Artefact artefact;
  artefact.id = id1;
  artefact.type = "GoalDefined";
  artefact.produced_by_role = "user";
  artefact.payload = "\n  a web page\nwith two lines";
  artefact.created_at = noon;
  auto row = [&](std::chrono::seconds age) { return table_row(artefact, noon + age); };
  CHECK(row(5s) == "11111111   -     Goal                 user               5s ago   a web page");
  artefact.version = 12;
  artefact.type = "AnUnusuallyLongTypeOfThing";
  artefact.produced_by_role = "ARoleWithAVeryLongName";
  artefact.payload = "日本語日本語日本語日本語日本語日本語日本語日本語";
  CHECK(row(3 * 60s) ==
        "11111111   v12   AnUnusuallyLongTy... ARoleWithAVeryL... 3m ago   "
        "日本語日本語日本語日本語日本語日本語...");
  artefact.payload.clear();
  artefact.created_at = {};
  CHECK(table_row(artefact, noon).ends_with(" -        -"));
  auto head = table_head();
  CHECK(head.starts_with("ID         VER   TYPE "));
}

TEST_CASE("ages are in one unit") {
  CHECK(age_of(noon, noon - 5s) == "0s ago");
  CHECK(age_of(noon, noon + 59s) == "59s ago");
  CHECK(age_of(noon, noon + 60min) == "1h ago");
  CHECK(age_of(noon, noon + 23h + 59min) == "23h ago");
  CHECK(age_of(noon, noon + 24h * 4) == "4d ago");
  CHECK(age_of(UnixTime{}, noon) == "-");
}

TEST_CASE("one artefact is shown with its members in their order, indented by two") {
  Artefact artefact;
  artefact.id = artefact.logical_id = id1;
  artefact.type = "T";
  artefact.payload = "a<b \"c\"\n";
  artefact.source_artefacts = {id2};
  artefact.produced_by_role = "user";
  artefact.created_at = noon;
  CHECK(pretty(artefact) ==
        "{\n  \"id\": \"" + id1 + "\",\n  \"logical_id\": \"" + id1 +
            "\",\n  \"version\": 1,\n  \"structural_type\": \"Standard\",\n  \"type\": \"T\",\n"
            "  \"payload\": \"a<b \\\"c\\\"\\n\",\n  \"source_artefacts\": [\n    \"" +
            id2 +
            "\"\n  ],\n  \"produced_by_role\": \"user\",\n  \"created_at_ms\": 1761912000007\n}");
}
