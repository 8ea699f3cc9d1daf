// Agents on a real server; the test is their orchestrator.
#include <signal.h>

#include "services/board/agent/container.h"
#include "services/board/orchestrator/control.h"
#include "with_agent.h"

using namespace warren;
using namespace warren::board;
using namespace warren::working;

namespace {

// Context is sorted by time, and a millisecond is long.
UnixTime at(int ms) { return UnixTime(std::chrono::milliseconds(ms)); }

awaitable<std::size_t> artefacts_of(Board& board, std::string type) {
  Listing listing;
  listing.type = std::move(type);
  auto page = value_of(co_await board.artefacts(listing));
  co_return page.items.size();
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("an agent bids on every claim, and ignores its own output and what its filter rejects") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto early = co_await goal(board);  // told before anybody listens
    auto terms = role_of(folder, code);
    terms.role.bids_on.types = {"Goal*", "Code"};
    auto body = [](Board& on, Agent& self, Claim& first) -> awaitable<void> {
      auto bid = co_await bid_on(on, first);
      CHECK(bid == BidType::exclusive);
      auto claim = co_await goal(on);
      bid = co_await bid_on(on, claim);
      CHECK(bid == BidType::exclusive);
      claim = co_await claimed(on, artefact_of("Picture"));
      bid = co_await bid_on(on, claim);
      CHECK(bid == BidType::ignore);
      auto own = artefact_of("Code");
      own.produced_by_role = "Coder";
      claim = co_await claimed(on, own);
      bid = co_await bid_on(on, claim);
      CHECK(bid == BidType::ignore);
      CHECK(self.stats().bids == 4);
    };
    co_await with_agent(board, terms, body, early);
  });
}

TEST_CASE("a grant is worked off with the real type of the claim, and becomes an artefact") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto terms = role_of(folder, "cat > input; " + code);
    auto body = [](Board& on, Agent&, TempFolder& where) -> awaitable<void> {
      for (auto type : {BidType::review, BidType::claim, BidType::exclusive}) {
        auto claim = co_await goal(on);
        co_await grant(on, claim, type);
        auto result = co_await result_of(on, claim);
        CHECK(result.type == "Code");
        CHECK(result.payload == "x");
        CHECK(result.version == 1);
        CHECK(result.logical_id == result.id);
        CHECK(result.source_artefacts == Words{claim.artefact_id});
        CHECK(result.produced_by_role == "Coder");
        auto target = value_of(co_await on.artefact(claim.artefact_id));
        CHECK(contents(where.path() / "input") == agent::tool_input(type, target, {}));
      }
    };
    co_await with_agent(board, terms, body, folder);
  });
}

TEST_CASE("a grant that is told many times is worked off once") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto terms = role_of(folder, counted("sleep 0.2; " + code));
    terms.sweep_every = 20ms;
    auto body = [](Board& on, Agent& self, TempFolder& where) -> awaitable<void> {
      auto claim = co_await goal(on);
      co_await grant(on, claim);
      for (int i = 0; i < 5; ++i) {
        Announcement again = Grant{"Coder", claim.id, BidType::exclusive};
        value_of(co_await on.announce(again));
      }
      co_await result_of(on, claim);
      Announcement again = Grant{"Coder", claim.id, BidType::exclusive};
      value_of(co_await on.announce(again));
      auto next = co_await goal(on);
      co_await grant(on, next);
      co_await result_of(on, next);
      CHECK(runs(where) == 2);
      CHECK(self.stats().results == 2);
    };
    co_await with_agent(board, terms, body, folder);
    // Nor by the next agent, which finds the claim open.
    auto quiet = [](Board& on, Agent&, TempFolder& where) -> awaitable<void> {
      auto next = co_await goal(on);
      co_await grant(on, next);
      co_await result_of(on, next);
      CHECK(runs(where) == 3);
    };
    co_await with_agent(board, terms, quiet, folder);
  });
}

TEST_CASE("a grant for a claim that does not name the role in its phase is not worked off") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto terms = role_of(folder, counted());
    auto body = [](Board& on, Agent&, TempFolder& where) -> awaitable<void> {
      auto claim = co_await goal(on);
      Announcement lie = Grant{"Coder", claim.id, BidType::exclusive};
      value_of(co_await on.announce(lie));
      auto reviewed = granted(claim, BidType::review);
      reviewed.status = ClaimStatus::pending_exclusive;  // the review is over
      reviewed.granted_exclusive_agent = "Painter";
      value_of(co_await on.update_claim(claim, reviewed));
      value_of(co_await on.announce(lie));
      lie = Grant{"Coder", "11111111-1111-4111-8111-111111111111", BidType::exclusive};
      value_of(co_await on.announce(lie));
      auto next = co_await goal(on);
      co_await grant(on, next);
      co_await result_of(on, next);
      CHECK(runs(where) == 1);
    };
    co_await with_agent(board, terms, body, folder);
  });
}

TEST_CASE("what was told before it was granted is worked off, though nobody tells it again") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto terms = role_of(folder, code);
    terms.sweep_every = 20ms;
    auto body = [](Board& on, Agent&) -> awaitable<void> {
      auto claim = co_await goal(on);
      Announcement early = Grant{"Coder", claim.id, BidType::exclusive};
      value_of(co_await on.announce(early));
      auto other = co_await goal(on);
      co_await grant(on, other);
      co_await result_of(on, other);  // by then the first one was looked at
      value_of(co_await on.update_claim(claim, granted(claim, BidType::exclusive)));
      co_await result_of(on, claim);
    };
    co_await with_agent(board, terms, body);
  });
}

TEST_CASE("what was granted while the agent was away, or deaf, is found") {
  on_board([](Board& board, RedisServer& redis, TempFolder& folder) -> awaitable<void> {
    auto early = co_await goal(board);
    co_await grant(board, early);
    auto terms = role_of(folder, code);
    auto body = [](Board& on, Agent&, RedisServer& server, Claim& first) -> awaitable<void> {
      co_await result_of(on, first);
      // From now on nothing is told to it until its connection is back.
      auto deaf = value_of(co_await on.create_artefact(artefact_of("GoalDefined")));
      server.cli({"CLIENT", "KILL", "TYPE", "pubsub"});
      auto made = value_of(co_await on.create_claim(claim_on(deaf)));
      auto changed = granted(made.claim, BidType::exclusive);
      value_of(co_await on.update_claim(made.claim, changed));  // and the grant is never told
      co_await result_of(on, made.claim);
      auto bid = co_await bid_on(on, made.claim);
      CHECK(bid == BidType::exclusive);
    };
    co_await with_agent(board, terms, body, redis, early);
  });
}

TEST_CASE("two agents of one role make one result") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto answer = R"(echo "{\"artefact_type\":\"Code\",\"artefact_payload\":\"$$\",)"
                  R"(\"summary\":\"s\"}")";
    auto terms = role_of(folder, counted(answer));
    auto inner = [](Board& on, Agent&, TempFolder& where) -> awaitable<void> {
      constexpr std::size_t count = 20;
      std::vector<Claim> claims;
      for (std::size_t i = 0; i < count; ++i) {
        claims.push_back(co_await goal(on));
        co_await grant(on, claims.back());
      }
      for (const auto& claim : claims) co_await result_of(on, claim);
      auto both_ran = [&] { return runs(where) >= 2; };
      co_await eventually(10s, "both have worked", both_ran);
      auto made = co_await artefacts_of(on, "Code");
      CHECK(made == count);
      made = co_await artefacts_of(on, "ToolExecutionFailure");
      CHECK(made == 0);
    };
    auto outer = [](Board& on, Agent&, AgentTerms& same, decltype(inner)& then,
                    TempFolder& where) -> awaitable<void> {
      co_await with_agent(on, same, then, where);
    };
    co_await with_agent(board, terms, outer, terms, inner, folder);
  });
}

TEST_CASE("a tool that fails leaves a failure that says why") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    struct Case {
      std::string script, payload;
    };
    const std::vector<Case> cases{
        {"echo half; echo oops >&2; exit 3",
         "{\n  \"reason\": \"the tool exited with code 3\",\n  \"exit_code\": 3,\n"
         "  \"stdout\": \"half\\n\",\n  \"stderr\": \"oops\\n\",\n"
         "  \"error\": \"the tool exited with code 3\"\n}"},
        // A right answer, but it says itself that something went wrong.
        {code + "; exit 1",
         "{\n  \"reason\": \"the tool exited with code 1\",\n  \"exit_code\": 1,\n"
         "  \"stdout\": \"{\\\"artefact_type\\\":\\\"Code\\\",\\\"artefact_payload\\\":\\\"x\\\","
         "\\\"summary\\\":\\\"s\\\"}\\n\",\n"
         "  \"error\": \"the tool exited with code 1\"\n}"},
        {"echo hello",
         "{\n  \"reason\": \"what the tool wrote is not one JSON object\",\n"
         "  \"stdout\": \"hello\\n\",\n"
         "  \"error\": \"what the tool wrote is not one JSON object\"\n}"},
        {"sleep 60",
         "{\n  \"reason\": \"the tool did not end within 0.3 s\",\n  \"exit_code\": -1,\n"
         "  \"error\": \"the tool did not end within 0.3 s\"\n}"},
    };
    for (const auto& each : cases) {
      auto terms = role_of(folder, each.script);
      terms.role.timeout = each.script == "sleep 60" ? 300ms : 20'000ms;
      auto body = [](Board& on, Agent& self, const std::string& payload) -> awaitable<void> {
        auto claim = co_await goal(on);
        co_await grant(on, claim);
        auto result = co_await result_of(on, claim);
        CHECK(result.structural_type == StructuralType::failure);
        CHECK(result.type == "ToolExecutionFailure");
        CHECK(result.source_artefacts == Words{claim.artefact_id});
        CHECK(result.payload == payload);
        CHECK(self.stats().failures == 1);
      };
      co_await with_agent(board, terms, body, each.payload);
    }
    auto missing = role_of(folder, "");
    missing.role.command = {"./no-such-tool"};
    auto body = [](Board& on, Agent&) -> awaitable<void> {
      auto claim = co_await goal(on);
      co_await grant(on, claim);
      auto result = co_await result_of(on, claim);
      CHECK(result.structural_type == StructuralType::failure);
      CHECK(result.payload.contains("./no-such-tool cannot be run"));
      CHECK(result.payload.contains("\"exit_code\": -1"));
    };
    co_await with_agent(board, missing, body);
  });
}

TEST_CASE("a tool is tried again as often as its role says") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto terms = role_of(folder, counted("test $(wc -l < runs) -ge 3 || exit 1; " + code));
    terms.role.retries = 2;
    auto body = [](Board& on, Agent&, TempFolder& where) -> awaitable<void> {
      auto claim = co_await goal(on);
      co_await grant(on, claim);
      auto result = co_await result_of(on, claim);
      CHECK(result.structural_type == StructuralType::standard);
      CHECK(runs(where) == 3);
    };
    co_await with_agent(board, terms, body, folder);
  });
}

TEST_CASE("rework is the next version of the same thread, with the reviews as sources") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto terms = role_of(folder,
                         "cat > input; echo '{\"artefact_type\":\"Other\",\"summary\":"
                         "\"s\",\"artefact_payload\":\"better\"}'");
    auto body = [](Board& on, Agent&, TempFolder& where) -> awaitable<void> {
      auto draft = artefact_of("Draft", "bad");
      draft.produced_by_role = "Coder";
      draft.created_at = at(1);
      auto claim = co_await claimed(on, draft);
      auto target = value_of(co_await on.artefact(claim.artefact_id));
      auto review = artefact_of("Review", "no");
      review.structural_type = StructuralType::review;
      review.source_artefacts = {target.id};
      review.produced_by_role = "Critic";
      review.created_at = at(2);
      review = value_of(co_await on.create_artefact(review));

      BoardFeed feed(on.client(), on.keys());
      value_of(co_await feed.settled(Clock::now() + 10s));
      auto ended = claim;
      ended.status = ClaimStatus::terminated;
      Claim feedback = claim_on(target);
      feedback.status = ClaimStatus::pending_assignment;
      feedback.granted_exclusive_agent = "Coder";
      feedback.additional_context_ids = {review.id};
      feedback = value_of(co_await on.replace_claim(claim, ended, feedback));

      auto result = co_await result_of(on, feedback);
      CHECK(result.logical_id == target.logical_id);
      CHECK(result.version == 2);
      CHECK(result.type == "Draft");
      CHECK(result.payload == "better");
      CHECK(result.source_artefacts == Words{target.id, review.id});
      CHECK(contents(where.path() / "input") ==
            agent::tool_input(BidType::exclusive, target, {target, review}));
      auto latest = value_of(co_await on.latest(target.logical_id));
      CHECK(latest.id == result.id);
      std::optional<WorkflowEvent> told;
      while (!told || told->name != "artefact_reworked") {
        auto event = value_of(co_await feed.next(Clock::now() + 10s));
        if (auto* each = std::get_if<WorkflowEvent>(&event)) told = *each;
      }
      CHECK(told->data.at("new_artefact_id").as_string() == result.id.c_str());
      CHECK(told->data.at("previous_version_id").as_string() == target.id.c_str());
      auto bids = value_of(co_await on.bids(feedback.id));
      CHECK(bids.empty());
      co_await feed.close();
    };
    co_await with_agent(board, terms, body, folder);
  });
}

TEST_CASE("an agent that is stopped writes nothing, and the next one finishes its work") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto claim = co_await goal(board);
    co_await grant(board, claim);
    auto slow = role_of(folder,
                        "trap 'touch asked; exit 1' TERM; touch began; "
                        "while :; do sleep 0.05; done");
    auto begun = [](Board&, Agent&, TempFolder& where) -> awaitable<void> {
      co_await eventually(10s, "the tool runs",
                          [&] { return std::filesystem::exists(where.path() / "began"); });
    };
    co_await with_agent(board, slow, begun, folder);
    CHECK(std::filesystem::exists(folder.path() / "asked"));
    auto result = co_await board.artefact(result_id(claim.id, "Coder"));
    REQUIRE(!result);
    CHECK(result.error().code == Errc::not_found);
    auto finished = [](Board& on, Agent&, Claim& open) -> awaitable<void> {
      auto made = co_await result_of(on, open);
      CHECK(made.type == "Code");
    };
    co_await with_agent(board, role_of(folder, code), finished, claim);
  });
}

TEST_CASE("what comes of a claim that was ended meanwhile is dropped") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto terms = role_of(folder, "touch began; while ! test -e go; do sleep 0.02; done; " + code);
    auto body = [](Board& on, Agent& self, TempFolder& where) -> awaitable<void> {
      auto claim = co_await goal(on);
      auto open = co_await grant(on, claim);
      co_await eventually(10s, "the tool runs",
                          [&] { return std::filesystem::exists(where.path() / "began"); });
      auto ended = open;
      ended.status = ClaimStatus::terminated;
      value_of(co_await on.update_claim(open, ended));
      std::ofstream(where.path() / "go") << "go";
      co_await eventually(10s, "the tool ended", [&] { return self.stats().running == 0; });
      auto result = co_await on.artefact(result_id(claim.id, "Coder"));
      CHECK(!result);
    };
    co_await with_agent(board, terms, body, folder);
  });
}

TEST_CASE("the tool of a claim that was ended is ended too, and the role works on") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto terms = role_of(folder, "echo $$ >> pids; test -e go || sleep 600; " + code);
    terms.look_every = 20ms;
    auto body = [](Board& on, Agent& self, TempFolder& where) -> awaitable<void> {
      auto first = co_await goal(on), second = co_await goal(on);
      co_await grant(on, first);
      co_await eventually(20s, "its tool runs",
                          [&] { return !contents(where.path() / "pids").empty(); });
      auto pid = std::stoi(contents(where.path() / "pids"));
      co_await grant(on, second);
      std::ofstream(where.path() / "go").close();
      value_of(co_await orchestrator::cancel(on, first.id, "not needed"));
      co_await result_of(on, second);
      CHECK(kill(pid, 0) != 0);
      auto left = co_await on.artefact(agent::result_id(first.id, "Coder"));
      CHECK(error_of(std::move(left)).code == Errc::not_found);
      co_await eventually(20s, "nothing runs", [&] { return self.stats().running == 0; });
    };
    co_await with_agent(board, terms, body, folder);
  });
}

TEST_CASE("an agent bids on what the Go program claimed before it came, of which no index tells") {
  on_board([](Board& board, RedisServer& redis, TempFolder& folder) -> awaitable<void> {
    auto claim = co_await goal(board);
    for (auto index : {"x:claims:pending_review", "x:claim_ids", "x:artefacts", "x:artefact_ids"})
      redis.cli({"DEL", board.keys().root() + index});
    auto body = [](Board& on, Agent&, Claim& of) -> awaitable<void> {
      auto bid = co_await bid_on(on, of);
      CHECK(bid == BidType::exclusive);
    };
    auto terms = role_of(folder, code);
    co_await with_agent(board, terms, body, claim);
  });
}

TEST_CASE("no more tools run at once than the role says, and bids wait for none of them") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto terms = role_of(folder, counted("while ! test -e go; do sleep 0.02; done; " + code));
    terms.role.max_concurrent = 2;
    auto body = [](Board& on, Agent& self, TempFolder& where) -> awaitable<void> {
      std::vector<Claim> claims;
      for (int i = 0; i < 6; ++i) {
        claims.push_back(co_await goal(on));
        co_await grant(on, claims.back());
      }
      co_await eventually(10s, "all are known", [&] { return self.stats().queued == 4; });
      auto last = co_await goal(on);
      co_await bid_on(on, last);
      CHECK(self.stats().running == 2);
      co_await eventually(10s, "both have begun", [&] { return runs(where) == 2; });
      std::ofstream(where.path() / "go") << "go";
      for (const auto& claim : claims) co_await result_of(on, claim);
      CHECK(runs(where) == 6);
    };
    co_await with_agent(board, terms, body, folder);
  });
}

TEST_CASE("a bid script is asked, and one that fails or hangs is replaced by the strategy") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    struct Case {
      std::string script;
      BidType bid;
    };
    const std::vector<Case> cases{
        {"echo chat >&2; echo ' review '", BidType::review},
        {"grep -q '\"type\":\"GoalDefined\"' && echo claim", BidType::claim},
        {"echo perhaps", BidType::exclusive},
        {"exit 1", BidType::exclusive},
        {"sleep 60", BidType::exclusive}};
    for (const auto& each : cases) {
      auto terms = role_of(folder, code);
      terms.role.bid_script = {"sh", "-c", "echo bid >> runs; " + each.script};
      terms.role.bid_timeout = each.script == "sleep 60" ? 2s : 20s;
      auto body = [](Board& on, Agent&, const BidType& expected) -> awaitable<void> {
        auto claim = co_await goal(on);
        auto bid = co_await bid_on(on, claim);
        CHECK(bid == expected);
      };
      co_await with_agent(board, terms, body, each.bid);
    }
    CHECK(runs(folder) == 5);  // who has bid is not asked again
    auto terms = role_of(folder, code);
    terms.role.bid_script = {"false"};
    terms.role.bidding_strategy.reset();
    auto body = [](Board& on, Agent&) -> awaitable<void> {
      auto claim = co_await goal(on);
      auto bid = co_await bid_on(on, claim);
      CHECK(bid == BidType::ignore);
    };
    co_await with_agent(board, terms, body);
  });
}

TEST_CASE("context is what the target came from, the newest versions, oldest first") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto terms = role_of(folder, "cat > input; " + code);
    auto body = [](Board& on, Agent&, TempFolder& where) -> awaitable<void> {
      auto root = artefact_of("GoalDefined", "goal");
      root.created_at = at(1);
      root = value_of(co_await on.create_artefact(root));
      auto plan = artefact_of("Plan", "old");
      plan.source_artefacts = {root.id};
      plan = value_of(co_await on.create_artefact(plan));
      auto failure = artefact_of("ToolExecutionFailure", "no");
      failure.structural_type = StructuralType::failure;
      failure = value_of(co_await on.create_artefact(failure));
      auto newer = artefact_of("Plan", "new");
      newer.logical_id = plan.logical_id;
      newer.created_at = at(2);
      newer.source_artefacts = {root.id, failure.id};
      newer = value_of(co_await on.create_next_version(newer));
      auto target = artefact_of("Draft", "draft");
      target.source_artefacts = {plan.id, "11111111-1111-4111-8111-111111111111"};
      auto claim = co_await claimed(on, target);
      co_await grant(on, claim);
      co_await result_of(on, claim);
      target = value_of(co_await on.artefact(claim.artefact_id));
      CHECK(contents(where.path() / "input") ==
            agent::tool_input(BidType::exclusive, target, {root, newer}));
    };
    co_await with_agent(board, terms, body, folder);
  });
}

TEST_CASE("a worktree per claim: its commits stay, the tree goes, and the workspace is untouched") {
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    agent::ToolTerms setup;
    setup.argv = {"sh", "-c",
                  "git init -q -b main . && mkdir sub && touch sub/here && git add sub && "
                  "git -c user.name=a -c user.email=a@b commit -q -m first && "
                  "git worktree add -q sub/.warren/worktrees/0123abcd-Coder-999999999 && "
                  "echo '*' > sub/.warren/.gitignore"};
    setup.folder = folder.path();
    setup.environment = agent::least_environment();
    auto made = value_of(co_await agent::run_tool(setup));
    REQUIRE_MESSAGE(made.exit_code == 0, made.err);

    auto terms = role_of(
        folder,
        "test -e here && echo hello > page && git add page && git -c user.name=a -c user.email=a@b "
        "commit -q -m page && echo \"{\\\"artefact_type\\\":\\\"CodeCommit\\\","
        "\\\"artefact_payload\\\":\\\"$(git rev-parse HEAD)\\\","
        "\\\"summary\\\":\\\"s\\\"}\"");
    terms.workspace /= "sub";  // of a larger repository
    terms.role.workspace = crew::WorkspaceMode::worktree;
    auto body = [](Board& on, Agent&, TempFolder& where) -> awaitable<void> {
      auto trees = where.path() / "sub/.warren/worktrees";
      CHECK(!std::filesystem::exists(trees / "0123abcd-Coder-999999999"));
      auto claim = co_await goal(on);
      co_await grant(on, claim);
      auto result = co_await result_of(on, claim);
      CHECK(result.type == "CodeCommit");
      CHECK(!std::filesystem::exists(where.path() / "sub/page"));
      CHECK(std::filesystem::is_empty(trees));
      agent::ToolTerms look;
      look.folder = where.path();
      look.environment = agent::least_environment();
      look.argv = {"git", "for-each-ref", "--format=%(objectname) %(refname)", "refs/warren"};
      auto refs = value_of(co_await agent::run_tool(look));
      CHECK(refs.out == fmt::format("{} refs/warren/{}/Coder\n", result.payload, claim.id));
      look.argv = {"git", "status", "--porcelain"};
      refs = value_of(co_await agent::run_tool(look));
      CHECK(refs.out.empty());
    };
    co_await with_agent(board, terms, body, folder);
  });
}

TEST_CASE("a result waits for Redis to come back") {
  RedisServer server({.appendonly = true});
  TempFolder folder;
  auto body = [](Board& board, RedisServer& redis, TempFolder& where) -> awaitable<void> {
    auto terms =
        role_of(where, counted("while ! test -e go; do sleep 0.02; done; touch over; " + code));
    auto inner = [](Board& on, Agent& self, RedisServer& away,
                    TempFolder& here) -> awaitable<void> {
      auto claim = co_await goal(on);
      co_await grant(on, claim);
      co_await eventually(10s, "the tool runs", [&] { return runs(here) == 1; });
      away.stop();
      std::ofstream(here.path() / "go") << "go";
      co_await eventually(10s, "the tool is over",
                          [&] { return std::filesystem::exists(here.path() / "over"); });
      away.restart();
      auto result = co_await result_of(on, claim);
      CHECK(result.type == "Code");
      co_await eventually(10s, "it knows", [&] { return self.stats().results == 1; });
      CHECK(runs(here) == 1);
    };
    co_await with_agent(board, terms, inner, redis, where);
  };
  with_board(settings_for(server), body, server, folder);
}

TEST_CASE(
    "an image is run by docker, without secrets on its command line, and removed at the end") {
  // What docker is asked for, and then the command itself, here.
  TempFolder programs;
  auto docker = programs.path() / "docker";
  std::ofstream(docker) << "#!/bin/sh\n"
                           "echo \"$@\" >> \"$(dirname \"$0\")/asked\"\n"
                           "test $1 = run || exit 0\n"
                           "while test $1 != painter:1; do shift; done\n"
                           "shift; exec \"$@\"\n";
  std::filesystem::permissions(docker, std::filesystem::perms::owner_all);
  std::string path = std::getenv("PATH");
  setenv("PATH", (programs.path().string() + ":" + path).c_str(), 1);
  on_board([](Board& board, RedisServer&, TempFolder& folder) -> awaitable<void> {
    auto terms = role_of(folder, "test ${#KEY} = 7 && " + code);
    terms.role.image = "painter:1";
    terms.role.environment = {{"KEY", "hunter2"}};
    auto body = [](Board& on, Agent&, const StructuralType& expected) -> awaitable<void> {
      auto claim = co_await goal(on);
      co_await grant(on, claim);
      auto result = co_await result_of(on, claim);
      CHECK(result.structural_type == expected);
    };
    StructuralType expected = StructuralType::standard;
    co_await with_agent(board, terms, body, expected);
    terms.role.command = {"sleep", "60"};
    terms.role.timeout = 2s;  // by then it has been asked for
    expected = StructuralType::failure;
    co_await with_agent(board, terms, body, expected);
  });
  setenv("PATH", path.c_str(), 1);
  auto asked = contents(programs.path() / "asked");
  CAPTURE(asked);
  CHECK(!asked.contains("hunter2"));
  CHECK(asked.starts_with("run --rm -i --name warren-Coder-"));
  CHECK(asked.contains(",target=/workspace,readonly --workdir /workspace --env KEY painter:1 sh"));
  CHECK(asked.contains("\nrm --force warren-Coder-"));
  CHECK(std::ranges::count(asked, '\n') == 3);
}

TEST_CASE("without docker and podman a role with an image fails, and says what it needs") {
  std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  auto program = agent::container_program();
  setenv("PATH", path.c_str(), 1);
  auto error = error_of(std::move(program));
  CHECK(error.what == "a role with an image needs docker or podman, and neither is in PATH");
}
