// What tools hear and say.
#include "services/board/agent/contract.h"

#include <doctest/doctest.h>

#include "proof/testkit/run.h"
#include "proof/testkit/temp_folder.h"
#include "services/board/agent/git.h"
#include "services/board/store/types.h"

using namespace warren;
using namespace warren::agent;
using namespace warren::board;

namespace {

Artefact artefact(std::string id, std::string payload) {
  Artefact made;
  made.id = made.logical_id = std::move(id);
  made.type = "Draft";
  made.payload = std::move(payload);
  made.produced_by_role = "Writer";
  made.created_at = UnixTime(std::chrono::milliseconds(7));
  return made;
}

const std::string one = "11111111-1111-4111-8111-111111111111",
                  two = "22222222-2222-4222-8222-222222222222";

std::string why_not(const std::string& text) {
  auto output = parse_tool_output(text);
  REQUIRE(!output);
  CHECK(output.error().code == Errc::invalid);
  return output.error().what;
}

}  // namespace

TEST_CASE("the input is one line, target before chain, in an order that grep can rely on") {
  auto target = artefact(one, "a \"b\"\n");
  target.source_artefacts = {two};
  CHECK(tool_input(BidType::claim, target, {}) ==
        R"({"claim_type":"claim","target_artefact":{"id":"11111111-1111-4111-8111-111111111111",)"
        R"("logical_id":"11111111-1111-4111-8111-111111111111","version":1,)"
        R"("structural_type":"Standard","type":"Draft","payload":"a \"b\"\n",)"
        R"("source_artefacts":["22222222-2222-4222-8222-222222222222"],)"
        R"("produced_by_role":"Writer","created_at_ms":7},"context_chain":[]})");
  auto input = tool_input(BidType::review, target, {artefact(two, ""), artefact(one, "")});
  CHECK(input.starts_with(R"({"claim_type":"review","target_artefact":{"id":"1111)"));
  CHECK(input.contains(R"("context_chain":[{"id":"2222)"));
  CHECK(input.contains(R"(},{"id":"1111)"));
  CHECK(input.ends_with("}]}"));
}

TEST_CASE("the output is one JSON object with a type and a summary") {
  auto output = parse_tool_output(
      "\n {\"artefact_type\":\"Draft\",\"artefact_payload\":\"x\",\"summary\":\"s\",\"more\":[]} "
      "\n");
  REQUIRE(output);
  CHECK(output->artefact_type == "Draft");
  CHECK(output->payload == "x");
  CHECK(output->structural_type == StructuralType::standard);
  output = parse_tool_output(R"({"artefact_type":"Review","summary":"s"})");
  REQUIRE(output);
  CHECK(output->structural_type == StructuralType::review);
  CHECK(output->payload.empty());
  output =
      parse_tool_output(R"({"artefact_type":"Page","summary":"s","structural_type":"Terminal"})");
  REQUIRE(output);
  CHECK(output->structural_type == StructuralType::terminal);

  CHECK(why_not("") == "the tool wrote nothing");
  CHECK(why_not(" \n") == "the tool wrote nothing");
  CHECK(why_not("hello") == "what the tool wrote is not one JSON object");
  CHECK(why_not("[]") == "what the tool wrote is not one JSON object");
  CHECK(why_not("{} {}") == "what the tool wrote is not one JSON object");
  CHECK(why_not("{}") == "artefact_type is missing or empty");
  CHECK(why_not(R"({"artefact_type":5,"summary":"s"})") == "artefact_type must be text");
  CHECK(why_not(R"({"artefact_type":"A"})") == "summary is missing or empty");
  CHECK(why_not(R"({"artefact_type":"A","summary":""})") == "summary is missing or empty");
  CHECK(why_not(R"({"artefact_type":"A","summary":"s","artefact_payload":{}})") ==
        "artefact_payload must be text");
  CHECK(why_not(R"({"artefact_type":"A","summary":"s","structural_type":"review"})") ==
        "structural_type \"review\" is none of the six");
}

TEST_CASE("a bid is one word") {
  CHECK(*parse_bid(" exclusive\n") == BidType::exclusive);
  CHECK(*parse_bid("ignore") == BidType::ignore);
  CHECK(!parse_bid(""));
  CHECK(!parse_bid("review claim"));
  CHECK(parse_bid("Review").error().what ==
        "\"Review\" is no bid: review, claim, exclusive or ignore");
}

TEST_CASE("a failure says why, with what the tool wrote, cut between two characters") {
  ToolEnd end;
  CHECK(failure_payload("no \"target\"", end) ==
        "{\n  \"reason\": \"no \\\"target\\\"\",\n  \"error\": \"no \\\"target\\\"\"\n}");
  end.exit_code = 3;
  end.out = "out";
  std::string begin(4999, 'x');
  end.err = fmt::format("{}ä and more", begin);
  auto payload = failure_payload("it failed", end);
  CHECK(payload == fmt::format("{{\n  \"reason\": \"it failed\",\n  \"exit_code\": 3,\n  "
                               "\"stdout\": \"out\",\n  \"stderr\": \"{}...\",\n  "
                               "\"error\": \"it failed\"\n}}",
                               begin));
  end.err = std::string(10'000, '\xff');
  CHECK(!failure_payload("it failed", end).contains('\xff'));
}

TEST_CASE("how a tool ended badly is said in words") {
  ToolEnd end;
  CHECK(complaint(end, 5s).empty());
  for (int code : {1, 2, 127, 255}) {
    end.exit_code = code;
    CHECK(complaint(end, 5s) == fmt::format("the tool exited with code {}", code));
  }
  end.exit_code = -1;
  end.signal = 9;
  CHECK(complaint(end, 5s) == "the tool was ended by signal 9");
  end.timed_out = true;
  CHECK(complaint(end, 1500ms) == "the tool did not end within 1.5 s");
}

TEST_CASE("the result of a claim and a role has one id, which is a UUID of version 5") {
  auto id = result_id(one, "Writer");
  CHECK(id == result_id(one, "Writer"));
  CHECK(id != result_id(one, "Reviewer"));
  CHECK(id != result_id(two, "Writer"));
  CHECK(canonical_uuid(id) == id);
  CHECK(id[14] == '5');
}

TEST_CASE("a commit is there, or it is refused; nothing else is asked of git") {
  run([]() -> awaitable<void> {
    TempFolder folder;
    ToolTerms setup;
    setup.argv = {"sh", "-c",
                  "git init -q -b main . && git -c user.name=a -c user.email=a@b commit -q "
                  "--allow-empty -m first && git rev-parse HEAD"};
    setup.folder = folder.path();
    setup.environment = least_environment();
    auto made = co_await run_tool(setup);
    REQUIRE(made);
    REQUIRE_MESSAGE(made->exit_code == 0, made->err);
    auto hash = made->out.substr(0, 40);
    auto good = co_await check_commit(folder.path(), hash);
    CHECK_MESSAGE(good, good.error().what);
    good = co_await check_commit(folder.path(), "main");
    CHECK_MESSAGE(good, good.error().what);
    for (std::string bad :
         {std::string(40, 'a'), std::string("nowhere"), std::string(""), std::string("--help"),
          std::string("--batch"), std::string("HEAD^{tree}"), std::string("main:file"),
          std::string("main@{1}"), std::string("main..main"), hash + "\n", std::string("-e"),
          std::string("$(touch x)")}) {
      auto found = co_await check_commit(folder.path(), bad);
      REQUIRE_MESSAGE(!found, bad);
      CHECK(found.error().code == Errc::invalid);
    }
  }());
}
