#include "services/board/store/events.h"

#include <doctest/doctest.h>

using namespace warren;
using namespace warren::board;

namespace {

const std::string id = "0b54e9a1-7c4f-4d55-9a3e-0c1f5b2d6e7f";
const std::string other = "4b1f6b0e-5a26-4c3b-8a1f-2d6c9e3f7a10";
const std::string no(300, 'n');
const BoardKeys keys = *BoardKeys::create("holt", "demo", Layout::plain);

std::string workflow(const WorkflowEvent& event) {
  auto message = encode(keys, event);
  CHECK(message.channel == "holt:demo:workflow_events");
  return message.payload;
}

}  // namespace

TEST_CASE("a grant goes to the channel of its role, in the form that agents expect") {
  auto message = encode(keys, Grant{"coder", id, BidType::claim});
  CHECK(message.channel == "holt:demo:agent:coder:events");
  CHECK(message.payload ==
        R"({"claim_id":")" + id + R"(","claim_type":"claim","event_type":"grant"})");
  auto read = parse_event(keys, message.channel, message.payload);
  REQUIRE(std::holds_alternative<Grant>(read));
  CHECK(std::get<Grant>(read).role == "coder");
  CHECK(std::get<Grant>(read).type == BidType::claim);

  auto untyped = R"({"event_type":"grant","claim_id":")" + id + "\"}";
  CHECK(std::holds_alternative<Grant>(parse_event(keys, message.channel, untyped)));
}

TEST_CASE("workflow events have Go's members in the order of their names") {
  CHECK(workflow(bid_submitted("coder", BidType::exclusive, id)) ==
        R"({"event":"bid_submitted","data":{"agent_name":"coder","bid_type":"exclusive",)"
        R"("claim_id":")" +
            id + R"("}})");
  CHECK(workflow(claim_granted("coder", BidType::review, id, "")) ==
        R"({"event":"claim_granted","data":{"agent_image_id":"","agent_name":"coder",)"
        R"("claim_id":")" +
            id + R"(","grant_type":"review"}})");
  CHECK(workflow(review_approved("judge", id)) ==
        R"({"event":"review_approved","data":{"original_artefact_id":")" + id +
            R"(","reviewer_role":"judge"}})");
  CHECK(workflow(review_rejected("judge", id, no)).contains(no.substr(0, 200) + "...\""));
  Claim feedback;
  feedback.id = id;
  feedback.granted_exclusive_agent = "coder";
  CHECK(workflow(feedback_claim_created(feedback, other, 2)) ==
        R"({"event":"feedback_claim_created","data":{"feedback_claim_id":")" + id +
            R"(","iteration":2,"original_claim_id":")" + other +
            R"(","target_agent_role":"coder"}})");
  Artefact reworked;
  reworked.id = reworked.logical_id = id;
  reworked.version = 3;
  CHECK(workflow(artefact_reworked(reworked, other)).contains(R"("new_version":3,"previous_)"));
}

TEST_CASE("a workflow event of an unknown name is passed on; a feedback cut within a letter too") {
  auto read = parse_event(keys, keys.workflow_events(), R"({"event":"news","data":{"n":1},"x":2})");
  REQUIRE(std::holds_alternative<WorkflowEvent>(read));
  CHECK(std::get<WorkflowEvent>(read).name == "news");
  CHECK(std::get<WorkflowEvent>(read).data.at("n") == 1);
  auto cut = workflow(review_rejected("judge", id, no.substr(0, 199) + "ü and more"));
  CHECK(std::holds_alternative<WorkflowEvent>(parse_event(keys, keys.workflow_events(), cut)));
}

TEST_CASE("what is malformed is reported with its channel and its reason") {
  std::pair<std::string, std::string> cases[] = {
      {keys.artefact_events(), "gibberish"},
      {keys.artefact_events(), R"({"id":"x"})"},
      {keys.claim_events(), R"({"id":1})"},
      {keys.claim_events(), ""},
      {keys.workflow_events(), R"({"data":{}})"},
      {keys.workflow_events(), R"({"event":"x","data":[]})"},
      {keys.agent_events("coder"), R"({"event_type":"revoke","claim_id":")" + id + "\"}"},
      {keys.agent_events("coder"), R"({"event_type":"grant","claim_id":"x"})"},
      {keys.agent_events("coder"),
       R"({"event_type":"grant","claim_id":")" + id + R"(","claim_type":3})"},
      {"holt:other:artefact_events", "{}"},
      {"holt:demo:agent:events", "{}"},
  };
  for (const auto& [channel, payload] : cases) {
    auto read = parse_event(keys, channel, payload);
    REQUIRE(std::holds_alternative<Malformed>(read));
    CHECK(std::get<Malformed>(read).channel == channel);
    CHECK(std::get<Malformed>(read).why.starts_with(channel + ": "));
  }
}
