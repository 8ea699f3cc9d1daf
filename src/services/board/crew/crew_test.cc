// What a crew file may say, and what is said about one that may not.
#include "services/board/crew/crew.h"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <fstream>

#include "base/clock.h"
#include "base/yaml.h"
#include "proof/testkit/temp_folder.h"

using namespace warren;
using namespace warren::crew;
using board::BidType;
using board::StructuralType;

namespace {

const Environment host{{"HOME", "/home/alice"}, {"API_KEY", "hunter2"}};

CrewReading parse(const std::string& text) { return parse_crew(text, "holt.yml", host); }

Crew parsed(const std::string& text) {
  auto reading = parse(text);
  REQUIRE_MESSAGE(reading.crew, (reading.errors.empty() ? "" : reading.errors[0]));
  return *reading.crew;
}

const std::string least = R"(version: "1.0"
agents:
  Coder:
    command: [./code.sh]
    bidding_strategy: exclusive
)";

// The smallest crew, with one more line for its role.
std::string with(const std::string& line) { return least + "    " + line + "\n"; }

}  // namespace

TEST_CASE("a role needs a command and a bid, and has defaults for everything else") {
  auto crew = parsed(least);
  REQUIRE(crew.roles.size() == 1);
  const auto& coder = crew.roles[0];
  CHECK(coder.name == "Coder");
  CHECK(coder.command == Words{"./code.sh"});
  CHECK(coder.bidding_strategy == BidType::exclusive);
  CHECK(coder.image.empty());
  CHECK(coder.workspace == WorkspaceMode::read_only);
  CHECK(coder.timeout == 5min);
  CHECK(coder.bid_timeout == 10s);
  CHECK(coder.retries == 0);
  CHECK(coder.max_concurrent == 1);
  CHECK(!coder.is_controller);
  CHECK(crew.orchestrator.max_review_iterations == 3);
  CHECK(crew.orchestrator.missing_bids == MissingBids::ignore);
  CHECK(crew.orchestrator.limits.depth == 0);
  CHECK(crew.find("Coder") == &crew.roles[0]);
  CHECK(!crew.find("coder"));
  CHECK(parse(least).warnings.empty());
}

TEST_CASE("every key is read") {
  auto crew = parsed(R"(version: 1.0
orchestrator:
  max_review_iterations: 0
  bid_timeout: 2s
  missing_bids: wait
  limits: {depth: 10, artefacts: 200, time: 1h}
agents:
  Painter: {image: "painter:1", command: [paint], bidding_strategy: review}
  Writer:
    command: [write, --fast]
    bid_script: [./bid.sh]
    bids_on:
      types: [Goal*, Draft]
      roles: [user]
      structural_types: [Standard, Answer]
    workspace: {mode: worktree}
    environment: [KEY=$API_KEY, "PATHS=${HOME}/a:$HOME", API_KEY, PRICE=5$, EMPTY=]
    max_concurrent: 4
    timeout: 90s
    bid_timeout: 250ms
    retries: 2
  Boss:
    mode: controller
    bidding_strategy: claim
    worker: {image: w, command: [work], max_concurrent: 0, workspace: {mode: rw}}
)");
  CHECK(crew.orchestrator.max_review_iterations == 0);
  CHECK(crew.orchestrator.bid_timeout == 2s);
  CHECK(crew.orchestrator.missing_bids == MissingBids::wait);
  CHECK(crew.orchestrator.limits.depth == 10);
  CHECK(crew.orchestrator.limits.artefacts == 200);
  CHECK(crew.orchestrator.limits.time == 1h);
  REQUIRE(crew.roles.size() == 3);
  const auto& boss = crew.roles[0];
  CHECK(boss.is_controller);
  CHECK(boss.command == Words{"work"});
  CHECK(boss.image == "w");
  CHECK(boss.workspace == WorkspaceMode::read_write);
  CHECK(boss.max_concurrent == 1);
  CHECK(crew.roles[1].image == "painter:1");
  const auto& writer = crew.roles[2];
  CHECK(writer.command == Words{"write", "--fast"});
  CHECK(!writer.bidding_strategy);
  CHECK(writer.bid_script == Words{"./bid.sh"});
  CHECK(writer.bids_on.types == Words{"Goal*", "Draft"});
  CHECK(writer.bids_on.structural_types ==
        std::vector{StructuralType::standard, StructuralType::answer});
  CHECK(writer.workspace == WorkspaceMode::worktree);
  CHECK(writer.environment == Environment{{"KEY", "hunter2"},
                                          {"PATHS", "/home/alice/a:/home/alice"},
                                          {"API_KEY", "hunter2"},
                                          {"PRICE", "5$"},
                                          {"EMPTY", ""}});
  CHECK(writer.max_concurrent == 4);
  CHECK(writer.timeout == 90s);
  CHECK(writer.bid_timeout == 250ms);
  CHECK(writer.retries == 2);
}

TEST_CASE("a mistake is told with its line, its place and what would be right") {
  struct Case {
    std::string text;
    std::vector<std::string> errors;
  };
  const std::string at = "holt.yml:6: agents.Coder.";
  const std::string from_0 = "must be a whole number from 0 to 100";
  const std::string time = "must be a duration above zero, such as 250ms, 5s, 2m or 1h";
  const std::string list = "must be a list of text, such as [./run.sh, --fast]";
  const std::vector<Case> cases{
      {"", {"holt.yml:1: must be a map"}},
      {"- a", {"holt.yml:1: must be a map"}},
      {"a: [", {"holt.yml:1: end of sequence flow not found"}},
      {"version: 2\nagents: {}\n",
       {"holt.yml:1: version: must be 1.0",
        "holt.yml:2: agents: must be a map with at least one role"}},
      {"agent:\n  x: y\n",
       {"holt.yml:1: agent: unknown key, did you mean agents?",
        "holt.yml:1: version: is missing; it is \"1.0\"", "holt.yml:1: agents: is missing"}},
      {with("comand: [x]"), {at + "comand: unknown key, did you mean command?"}},
      {with("colour: red"), {at + "colour: unknown key"}},
      {with("rule: Coder"), {at + "rule: unknown key, did you mean role?"}},
      {with("command: [y]"), {"holt.yml:6: command: stands here twice"}},
      {with("retries: -1"), {at + "retries: " + from_0}},
      {with("retries: few"), {at + "retries: " + from_0}},
      {with("retries: 1.5"), {at + "retries: " + from_0}},
      {with("retries: [1]"), {at + "retries: " + from_0}},
      {with("retries:"), {at + "retries: " + from_0}},
      {with("timeout: 5"), {at + "timeout: " + time}},
      {with("timeout: 0s"), {at + "timeout: " + time}},
      {with("bid_timeout: -5s"), {at + "bid_timeout: " + time}},
      {with("max_concurrent: 0"), {at + "max_concurrent: must be a whole number from 1 to 1000"}},
      {with("image: [a]"), {at + "image: must be text"}},
      {with("image: ''"), {at + "image: must be text"}},
      {with("image: --privileged"), {"holt.yml:3: agents.Coder.image: must not begin with -"}},
      {with("image: a\n    workspace: {mode: worktree}"),
       {"holt.yml:3: agents.Coder.workspace.mode: worktree is for commands without an image"}},
      {with("bid_script: ./bid.sh"), {at + "bid_script: " + list}},
      {with("bid_script: []"), {at + "bid_script: " + list}},
      {with("bid_script: [[a]]"), {at + "bid_script: " + list}},
      {with("workspace: rw"), {at + "workspace: must be a map"}},
      {with("workspace: {mode: wr}"),
       {at + "workspace.mode: must be one of ro, rw, worktree, did you mean rw?"}},
      {with("mode: boss"), {at + "mode: must be one of controller"}},
      {with("mode: controller"),
       {"holt.yml:3: agents.Coder.worker: is missing, and mode is controller"}},
      {with("worker: {command: [x]}"),
       {"holt.yml:3: agents.Coder.worker: only with mode: controller"}},
      {with("environment: {A: b}"), {at + "environment: must be a list of NAME=value or NAME"}},
      {with("environment: [A=b, 1X=secret, 'C D=secret', [x]]"),
       {at + "environment[1]: must be NAME=value or NAME",
        at + "environment[2]: must be NAME=value or NAME",
        at + "environment[3]: must be NAME=value or NAME"}},
      {with("bids_on: {type: [x]}"), {at + "bids_on.type: unknown key, did you mean types?"}},
      {with("bids_on: {structural_types: [standard]}"),
       {at + "bids_on.structural_types: must be one of Standard, Review, Question, Answer, "
             "Failure, Terminal, did you mean Standard?"}},
      {with("strategy: sometimes"), {at + "strategy: must be one of reuse, fresh_per_call"}},
      {"version: 1.0\nagents:\n  A_b:\n    bidding_strategy: exclusiv\n",
       {"holt.yml:3: agents.A_b: a role is 1 to 64 of A-Z, a-z, 0-9 and -",
        "holt.yml:3: agents.A_b.command: is missing",
        "holt.yml:4: agents.A_b.bidding_strategy: must be one of review, claim, exclusive, "
        "ignore, did you mean exclusive?"}},
      {"version: 1.0\nagents:\n  user: {command: [x]}\n",
       {"holt.yml:3: agents.user: is not for a role: others write under this name",
        "holt.yml:3: agents.user: needs a bidding_strategy or a bid_script"}},
      {"version: 1.0\nagents:\n  Boss:\n    mode: controller\n    bidding_strategy: claim\n"
       "    worker: {image: x}\n",
       {"holt.yml:6: agents.Boss.worker.command: is missing"}},
      {least + "orchestrator:\n  max_review_iterations: -1\n  limits: {depth: 0}\n",
       {"holt.yml:7: orchestrator.max_review_iterations: must be a whole number from 0 to 1000000",
        "holt.yml:8: orchestrator.limits.depth: must be a whole number from 1 to 1000000"}},
      {least + "---\na: b\n", {"holt.yml:7: only one document may be here"}},
  };
  for (const auto& each : cases) {
    auto reading = parse(each.text);
    CAPTURE(each.text);
    CHECK(!reading.crew);
    CHECK(fmt::format("{}", fmt::join(reading.errors, "\n")) ==
          fmt::format("{}", fmt::join(each.errors, "\n")));
  }
}

TEST_CASE("what other programs accept and ignore is accepted, and said to do nothing") {
  auto reading = parse(least + R"(    replicas: 3
    strategy: reuse
    resources: {limits: {cpus: 1}}
    prompts: {claim: hello}
    build: {context: .}
    health_check: {command: [true], interval: 1s}
  helper: {command: [x], bidding_strategy: ignore, environment: [TOKEN, "A=$NOPE"]}
services:
  redis: {image: redis:7}
)");
  CHECK(reading.crew);
  CHECK(reading.warnings ==
        std::vector<std::string>{
            "holt.yml:6: agents.Coder.replicas: has no effect",
            "holt.yml:7: agents.Coder.strategy: has no effect",
            "holt.yml:8: agents.Coder.resources: has no effect",
            "holt.yml:9: agents.Coder.prompts: has no effect",
            "holt.yml:10: agents.Coder.build: has no effect; build the image yourself",
            "holt.yml:11: agents.Coder.health_check: has no effect",
            "holt.yml:12: agents.helper: a role usually begins with a capital letter",
            "holt.yml:12: agents.helper.environment[0]: TOKEN is not set here",
            "holt.yml:12: agents.helper.environment[1]: NOPE is not set here",
            "holt.yml:13: services: has no effect"});
  CHECK(reading.crew->roles[1].environment == Environment{{"A", ""}});
}

TEST_CASE("no value of an environment is ever shown") {
  auto reading = parse(least + "    environment: [9=hunter2, 'PASS WORD=hunter2', hunter2 ]\n");
  CHECK(!reading.errors.empty());
  for (const auto& error : reading.errors) CHECK(!error.contains("hunter2"));
}

TEST_CASE("anchors save typing, and a bomb of them is refused") {
  auto crew = parsed(R"(version: 1.0
agents:
  A: &base {command: [x], bidding_strategy: claim}
  B: *base
)");
  CHECK(crew.roles.size() == 2);
  CHECK(crew.roles[1].command == Words{"x"});

  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += fmt::format("a{0}: &a{0} [", i);
    for (int j = 0; j < 10; ++j) bomb += fmt::format("*a{},", i - 1);
    bomb += "]\n";
  }
  CHECK(parse(bomb).errors == std::vector<std::string>{"holt.yml:1: too many values"});
  CHECK(parse("a: &a [*a, *a]").errors.size() == 1);
  std::string heavy = "a: &a \"" + std::string(900'000, 'x') + "\"\nb: [*a";
  for (int i = 0; i < 1000; ++i) heavy += ", *a";
  CHECK(parse(heavy + "]\n").errors == std::vector<std::string>{"holt.yml:1: too much text"});
}

TEST_CASE("hostile text ends quickly, with a message") {
  const std::vector<std::string> texts{
      std::string(100'000, '['),        std::string(100'000, '{'),   std::string(1'000'000, '-'),
      std::string(100'000, '?'),        std::string(1'000'000, ' '), std::string("\0\x01\xff", 3),
      std::string((1u << 20) + 1, 'a'), std::string(400'000, ':')};
  for (const auto& text : texts) {
    auto began = Clock::now();
    CHECK(!parse(text).errors.empty());
    CHECK(Clock::now() - began < 5s);
  }
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "- ";
  CHECK(!parse(nested).errors.empty());
}

TEST_CASE("a role bids on what others made, unless its filter says otherwise") {
  auto filtered = [](BidFilter filter) {
    Role role{.name = "Coder"};
    role.bids_on = std::move(filter);
    return role;
  };
  board::Artefact goal;
  goal.type = "GoalDefined";
  goal.produced_by_role = "user";
  auto own = goal;
  own.produced_by_role = "Coder";
  CHECK(admits(filtered({}), goal));
  CHECK(!admits(filtered({}), own));
  CHECK(admits(filtered({.roles = {"Coder"}}), own));
  CHECK(!admits(filtered({.roles = {"Coder"}}), goal));
  CHECK(admits(filtered({.types = {"Draft", "Goal*"}}), goal));
  CHECK(!admits(filtered({.types = {"goal*", "Goal?"}}), goal));
  CHECK(admits(filtered({.structural_types = {StructuralType::standard}}), goal));
  CHECK(!admits(filtered({.structural_types = {StructuralType::answer}}), goal));
  goal.type = "docs/page";
  CHECK(!admits(filtered({.types = {"docs*"}}), goal));
  CHECK(admits(filtered({.types = {"docs/*"}}), goal));
}

TEST_CASE("a crew is read from a file, and a file that is not there is named") {
  TempFolder folder;
  auto file = folder.path() / "sett.yml";
  auto missing = read_crew(file, host);
  REQUIRE(!missing);
  CHECK(missing.error().code == Errc::not_found);
  CHECK(missing.error().what == "there is no " + file.string());
  std::ofstream(file) << least << "    comand: [x]\n";
  auto reading = read_crew(file, host);
  REQUIRE(reading);
  CHECK(reading->errors ==
        std::vector<std::string>{
            "sett.yml:6: agents.Coder.comand: unknown key, did you mean command?"});
  CHECK(!read_crew(folder.path(), host));
}

TEST_CASE("a file of Sett's time is read: a role is called by its key, and bids exclusive") {
  auto reading = parse_crew(R"(version: "1.0"
agents:
  coder-agent:
    role: Coder
    command: [./run.sh]
    build: {context: ./agents/coder}
    workspace: {mode: rw}
  reviewer:
    role: Reviewer
    command: [./review.sh]
    bidding_strategy: review
services:
  redis: {image: "redis:7-alpine"}
)",
                            "sett.yml", {});
  REQUIRE_MESSAGE(reading.crew, (reading.errors.empty() ? "" : reading.errors[0]));
  const auto* coder = reading.crew->find("coder-agent");
  REQUIRE(coder);
  CHECK(coder->bidding_strategy == board::BidType::exclusive);
  CHECK(reading.crew->find("reviewer")->bidding_strategy == board::BidType::review);
  auto warns = [&](const std::string& of) {
    return std::ranges::any_of(reading.warnings, [&](auto& each) { return each.contains(of); });
  };
  CHECK(warns("sett.yml:4: agents.coder-agent.role: has no effect"));
  CHECK(warns("agents.coder-agent: has no bidding_strategy, and bids exclusive"));
}
