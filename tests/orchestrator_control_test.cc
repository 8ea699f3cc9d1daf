// What users do to the work on a board, and what the Go program leaves there.
#include "base/uuid.h"
#include "services/board/orchestrator/control.h"
#include "with_orchestrator.h"

using namespace warren;
using namespace warren::board;
using namespace warren::orchestrator;

namespace {

// One role that takes everything that is not its own, and delivers what the test says.
Agents one_coder() {
  Agents agents{{"coder"}, {}, {}};
  agents.bid = [](const std::string&, const Artefact&) { return BidType::exclusive; };
  return agents;
}

Artefact result(StructuralType type, std::string payload = "") {
  auto made = artefact_of("Result", std::move(payload));
  made.structural_type = type;
  return made;
}

Async<Claim> claim_has(Board& board, std::string& artefact, ClaimStatus& status) {
  auto claim = co_await board.claim_on(artefact);
  if (!claim) co_return claim;
  if (claim->status == status) co_return claim;
  co_return fail(Errc::not_found, "it is {}", name(claim->status));
}

awaitable<Claim> eventually_claimed(Board& board, std::string artefact, ClaimStatus status) {
  co_return co_await eventually(20s, "the claim is so", claim_has, board, artefact, status);
}

awaitable<Artefact> new_goal(Board& board, std::string payload = "") {
  co_return value_of(co_await board.create_artefact(artefact_of("GoalDefined", payload)));
}

bool is_ready(Running& running) { return running.orchestrator().is_ready(); }

}  // namespace

TEST_CASE("a question waits for its answer, and is listed until then") {
  auto agents = one_coder();
  agents.bid = [](const std::string&, const Artefact&) { return BidType::ignore; };
  with_server_and_agents(agents, [](Board& board, Agents& crew, RedisServer&) -> awaitable<void> {
    auto question = result(StructuralType::question, "which colour?");
    question.produced_by_role = "coder";
    question = value_of(co_await board.create_artefact(question));
    auto open = value_of(co_await questions(board));  // also without an orchestrator
    REQUIRE(open.size() == 1);
    CHECK(open[0].payload == "which colour?");
    Running running(board, terms_for(crew), 1);
    auto claim = co_await eventually_claimed(board, question.id, ClaimStatus::pending_review);
    open = value_of(co_await questions(board));
    CHECK(open.size() == 1);
    auto why = value_of(co_await explain(board, claim.id, terms_for(crew)));
    CHECK(why.text.contains("it is a question, and ends with its answer"));

    auto answered = value_of(co_await answer(board, question.id, "red"));
    CHECK(answered.produced_by_role == "user");
    CHECK(answered.structural_type == StructuralType::answer);
    co_await eventually_claimed(board, question.id, ClaimStatus::complete);
    co_await eventually_claimed(board, answered.id, ClaimStatus::complete);  // nobody bids for it
    open = value_of(co_await questions(board));
    CHECK(open.empty());
    auto refused = error_of(co_await answer(board, question.id, "blue"));
    CHECK(refused.code == Errc::refused);
    refused = error_of(co_await answer(board, answered.id, "blue"));
    CHECK(refused.code == Errc::invalid);
    refused = error_of(co_await answer(board, uuid4(), "blue"));
    CHECK(refused.code == Errc::not_found);
    co_await running.kill();
  });
}

TEST_CASE("a failed claim is tried again, as often as the user likes") {
  auto agents = one_coder();
  auto attempts = std::make_shared<int>(0);  // shared by the test and its agents
  agents.deliver = [attempts](const std::string&, const Claim&, const Artefact&) {
    bool fails = ++*attempts < 3;
    return std::optional(result(fails ? StructuralType::failure : StructuralType::terminal, "oh"));
  };
  with_server_and_agents(agents, [](Board& board, Agents& crew, RedisServer&) -> awaitable<void> {
    Running running(board, terms_for(crew), 1);
    auto goal = co_await new_goal(board);
    std::string first;
    for (int i = 0; i < 2; ++i) {
      auto failed = co_await eventually_claimed(board, goal.id, ClaimStatus::terminated);
      CHECK(failed.termination_reason.contains("oh"));
      if (i == 0) first = failed.id;
      auto why = value_of(co_await explain(board, failed.id, {}));
      CHECK(why.text.contains("ended: coder failed"));
      auto next = value_of(co_await retry(board, failed.id));
      CHECK(next.id != failed.id);
      CHECK(next.children_before == i + 1);
    }
    auto done = co_await eventually_claimed(board, goal.id, ClaimStatus::complete);
    auto refused = error_of(co_await retry(board, done.id));
    CHECK(refused.code == Errc::refused);
    auto late = error_of(co_await retry(board, first));
    CHECK(late.what.contains("came after it"));
    CHECK(crew.granted.size() == 3);
    co_await running.kill();
  });
}

TEST_CASE("of those who try a claim again at once, one does") {
  RedisServer server;
  with_board(settings_for(server), [](Board& board) -> awaitable<void> {
    auto goal = co_await new_goal(board);
    auto made = value_of(co_await board.create_claim(claim_on(goal)));
    value_of(co_await cancel(board, made.claim.id, "a mistake"));
    int done = 0;
    auto try_again = [](Board& b, std::string id, int& count) -> awaitable<void> {
      auto next = co_await retry(b, std::move(id));
      if (next) ++count;
    };
    TaskGroup users(board.client().executor());
    for (int i = 0; i < 10; ++i) users.start("user", try_again(board, made.claim.id, done));
    co_await users.join();
    CHECK(done == 1);
    auto counts = value_of(co_await board.counts());
    CHECK(counts.open_claims == 1);
  });
}

TEST_CASE("rework that failed is tried again by the same agent") {
  auto agents = newsroom();
  auto failed = std::make_shared<bool>(false);  // shared by the test and its agents
  agents.deliver = [deliver = agents.deliver, failed](const std::string& role, const Claim& claim,
                                                      const Artefact& target) {
    if (claim.status == ClaimStatus::pending_assignment && !std::exchange(*failed, true))
      return std::optional(result(StructuralType::failure));
    return deliver(role, claim, target);
  };
  with_server_and_agents(agents, [](Board& board, Agents& crew, RedisServer&) -> awaitable<void> {
    auto terms = terms_for(crew);
    terms.roles["writer"].max_concurrent = 1;
    Running running(board, terms, 1);
    co_await new_goal(board);
    auto rework_failed = [](Board& b) -> Async<Claim> {
      Listing listing;
      auto page = co_await b.claims(ClaimStatus::terminated, listing);
      if (!page) co_return std::unexpected(page.error());
      for (auto& claim : page->items)
        if (!claim.additional_context_ids.empty()) co_return claim;
      co_return fail(Errc::not_found, "not yet");
    };
    auto claim = co_await eventually(20s, "the rework failed", rework_failed, board);
    value_of(co_await retry(board, claim.id));
    std::string type = "Published";
    std::size_t one = 1;
    co_await eventually(20s, "it is published", has_artefacts, board, type, one);
    co_await eventually(20s, "all claims are over", has_ended, board);
    co_await running.kill();
  });
}

TEST_CASE("a claim or a whole goal is cancelled, and what comes of it later too") {
  with_server_and_agents(
      one_coder(), [](Board& board, Agents& crew, RedisServer&) -> awaitable<void> {
        Running running(board, terms_for(crew), 1);
        auto goal = co_await new_goal(board);
        auto claim = co_await eventually_claimed(board, goal.id, ClaimStatus::pending_exclusive);
        auto ended = value_of(co_await cancel(board, claim.id, "not needed"));
        CHECK(ended == 1);
        claim = value_of(co_await board.claim(claim.id));
        CHECK(claim.status == ClaimStatus::terminated);
        CHECK(claim.termination_reason == "not needed");
        auto refused = error_of(co_await cancel(board, claim.id, ""));
        CHECK(refused.code == Errc::refused);
        refused = error_of(co_await cancel(board, uuid4(), ""));
        CHECK(refused.code == Errc::not_found);

        auto again = value_of(co_await retry(board, claim.id));
        co_await eventually_claimed(board, goal.id, ClaimStatus::pending_exclusive);
        ended = value_of(co_await cancel(board, goal.id, "not at all"));
        CHECK(ended == 1);
        auto late = artefact_of("Plan");  // by somebody who did not hear of it
        late.produced_by_role = "planner";
        late.source_artefacts = {goal.id};
        late = value_of(co_await board.create_artefact(late));
        claim = co_await eventually_claimed(board, late.id, ClaimStatus::terminated);
        CHECK(claim.termination_reason == "not at all");
        refused = error_of(co_await cancel(board, late.id, ""));
        CHECK(refused.code == Errc::invalid);
        CHECK(refused.what.contains("is no goal"));

        // The next orchestrator knows it too; whoever tries again takes it back.
        co_await running.kill();
        Running next(board, terms_for(crew), 2);
        auto plan = late;
        plan.id = plan.logical_id = uuid4();
        plan.created_at = {};
        plan = value_of(co_await board.create_artefact(plan));
        claim = co_await eventually_claimed(board, plan.id, ClaimStatus::terminated);
        value_of(co_await retry(board, claim.id));
        co_await eventually_claimed(board, plan.id, ClaimStatus::pending_exclusive);
        co_await next.kill();
      });
}

TEST_CASE("while it is paused nothing is granted, whoever is the orchestrator") {
  with_server_and_agents(
      one_coder(), [](Board& board, Agents& crew, RedisServer&) -> awaitable<void> {
        value_of(co_await pause(board, "lunch"));
        auto running = std::make_unique<Running>(board, terms_for(crew), 1);
        auto goal = co_await new_goal(board);
        auto claim = co_await eventually_claimed(board, goal.id, ClaimStatus::pending_review);
        auto has_bid = [](Board& b, Claim& c) -> Async<> {
          auto bids = co_await b.bids(c.id);
          if (bids && bids->size() == 1) co_return ok;
          co_return fail(Errc::not_found, "no bid");
        };
        co_await eventually(20s, "there is a bid", has_bid, board, claim);
        auto why = value_of(co_await explain(board, claim.id, terms_for(crew)));
        REQUIRE(why.pause);
        CHECK(why.pause->reason == "lunch");
        CHECK(why.text.contains("paused since"));
        co_await running->kill();
        running = std::make_unique<Running>(board, terms_for(crew), 2);
        co_await eventually(20s, "it is ready", is_ready, *running);
        // Work under way ends, nothing begins. A second claim shows that the first was looked at.
        auto second = co_await new_goal(board);
        co_await eventually_claimed(board, second.id, ClaimStatus::pending_review);
        CHECK(crew.told["claim_granted"] == 0);
        CHECK(running->orchestrator().stats().is_paused);
        value_of(co_await resume(board));
        co_await eventually_claimed(board, goal.id, ClaimStatus::pending_exclusive);
        co_await eventually_claimed(board, second.id, ClaimStatus::pending_exclusive);
        value_of(co_await pause(board, ""));
        auto third = co_await new_goal(board);
        co_await eventually_claimed(board, third.id, ClaimStatus::pending_review);
        co_await running->kill();
        auto pause_now = value_of(co_await paused(board));
        CHECK(pause_now);
      });
}

TEST_CASE("explain says whose bids are missing, who has not delivered, and who is first in line") {
  auto agents = one_coder();
  with_server_and_agents(agents, [](Board& board, Agents& crew, RedisServer&) -> awaitable<void> {
    auto terms = terms_for(crew);
    terms.roles["coder"].max_concurrent = 1;
    Running running(board, terms, 1);
    auto first = co_await new_goal(board);
    auto claim = co_await eventually_claimed(board, first.id, ClaimStatus::pending_exclusive);
    auto why = value_of(co_await explain(board, claim.id, terms));
    CHECK(why.awaited == Words{"coder"});
    CHECK(why.text.contains("waits for: coder"));
    CHECK(why.claimed_at);
    auto second = co_await new_goal(board);
    auto third = co_await new_goal(board);
    co_await eventually_claimed(board, second.id, ClaimStatus::pending_exclusive);
    co_await eventually_claimed(board, third.id, ClaimStatus::pending_exclusive);
    std::set<std::size_t> places;
    for (const auto& goal : {second, third}) {
      claim = co_await eventually_claimed(board, goal.id, ClaimStatus::pending_exclusive);
      why = value_of(co_await explain(board, claim.id, terms));
      places.insert(why.queue_position.value_or(9));
      CHECK(why.text.contains("in the queue of coder since"));
    }
    terms.roles["absent"] = {};
    co_await running.kill();
    Running next(board, terms, 2);
    auto fourth = co_await new_goal(board);
    CHECK(places == std::set<std::size_t>{0, 1});
    claim = co_await eventually_claimed(board, fourth.id, ClaimStatus::pending_review);
    auto waits = [](Board& b, Claim& c, OrchestratorTerms& t) -> Async<> {
      auto found = co_await explain(b, c.id, t);
      if (!found) co_return std::unexpected(found.error());
      if (found->bids.size() == 1 && found->missing_bids == Words{"absent"} &&
          found->text.contains("waits for the bids of: absent"))
        co_return ok;
      co_return fail(Errc::not_found, "{}", found->text);
    };
    co_await eventually(20s, "one bid is missing", waits, board, claim, terms);
    auto none = error_of(co_await explain(board, uuid4(), terms));
    CHECK(none.code == Errc::not_found);
    co_await next.kill();
  });
}

TEST_CASE("an agent that works on its own results comes to an end at the limits of its workflow") {
  auto agents = one_coder();
  agents.deliver = [](const std::string&, const Claim&, const Artefact&) {
    return std::optional(result(StructuralType::standard));
  };
  for (auto limits : {WorkflowLimits{5, 0, 0ms}, WorkflowLimits{0, 8, 0ms}}) {
    RedisServer server;
    auto body = [](Board& board, Agents& crew, WorkflowLimits& most) -> awaitable<void> {
      auto terms = terms_for(crew);
      terms.roles["coder"].works_on_own_output = true;
      terms.limits = most;
      Running running(board, terms, 1);
      co_await new_goal(board);
      co_await new_goal(board);
      co_await eventually(20s, "all claims are over", has_ended, board);
      Listing listing;
      listing.type = most.depth > 0 ? "WorkflowTooDeep" : "WorkflowTooLarge";
      auto failures = value_of(co_await board.artefacts(listing));
      CHECK(failures.items.size() == 2);
      auto counts = value_of(co_await board.counts());
      // The goal, five or seven of its line, the one that is too much, and the failure.
      CHECK(counts.artefacts == (most.depth > 0 ? 16 : 20));
      co_await running.kill();
    };
    auto with_crew = [](Board& board, Agents& crew, WorkflowLimits& most,
                        decltype(body)& inner) -> awaitable<void> {
      co_await with_agents(board, crew, inner, most);
    };
    auto crew = agents;
    with_board(settings_for(server), with_crew, crew, limits, body);
  }
}

TEST_CASE("a workflow that takes too long is ended, whoever has it") {
  with_server_and_agents(
      one_coder(), [](Board& board, Agents& crew, RedisServer&) -> awaitable<void> {
        auto terms = terms_for(crew);
        terms.limits.time = 2s;
        Running running(board, terms, 1);
        auto goal = co_await new_goal(board);
        auto claim = co_await eventually_claimed(board, goal.id, ClaimStatus::terminated);
        CHECK(claim.termination_reason.contains("longer than 2000 ms"));
        CHECK(crew.told["claim_granted"] == 1);
        co_await running.kill();
      });
}

TEST_CASE("a workflow's time begins when its goal is heard of, whatever the stamp of that says") {
  with_server_and_agents(
      one_coder(), [](Board& board, Agents& crew, RedisServer& redis) -> awaitable<void> {
        auto stamped = [](Clock::duration ago) {
          auto goal = artefact_of("GoalDefined");
          goal.created_at = std::chrono::floor<std::chrono::milliseconds>(WallClock::now() - ago);
          return goal;
        };
        auto old = value_of(co_await board.create_artefact(stamped(1h)));
        auto young = value_of(co_await board.create_artefact(stamped(1s)));
        auto terms = terms_for(crew);
        terms.limits.time = 10min;
        Running running(board, terms, 1);
        // What was there before has nothing but its stamp.
        co_await eventually_claimed(board, old.id, ClaimStatus::terminated);
        co_await eventually_claimed(board, young.id, ClaimStatus::pending_exclusive);
        co_await eventually(20s, "it hears everything", is_ready, running);
        auto heard = value_of(co_await board.create_artefact(stamped(1h)));
        co_await eventually_claimed(board, heard.id, ClaimStatus::pending_exclusive);
        // Nor is it looked at when what is known of all workflows is read again.
        auto gaps = running.orchestrator().stats().gaps;
        redis.cli({"CLIENT", "KILL", "TYPE", "pubsub"});
        auto is_missed = [](Running& r, std::uint64_t& before) {
          return r.orchestrator().stats().gaps > before;
        };
        co_await eventually(20s, "events may have been missed", is_missed, running, gaps);
        auto step = artefact_of("Step");
        step.source_artefacts = {heard.id};
        auto next = value_of(co_await board.create_artefact(step));
        co_await eventually_claimed(board, next.id, ClaimStatus::pending_exclusive);
        auto claim = value_of(co_await board.claim_on(heard.id));
        CHECK(is_open(claim.status));
        co_await running.kill();
      });
}

namespace {

// As the Go program writes an artefact, and the event by which it tells it.
struct GoArtefact {
  std::string id, event;
};
GoArtefact write_go_artefact(RedisServer& redis, const std::string& type, const std::string& source,
                             const std::string& role) {
  auto id = uuid4(), logical = uuid4();
  auto sources = source.empty() ? std::string("null") : "[\"" + source + "\"]";
  redis.cli({"HSET",
             "holt:demo:artefact:" + id,
             "id",
             id,
             "logical_id",
             logical,
             "version",
             "1",
             "structural_type",
             "Standard",
             "type",
             type,
             "payload",
             "<x>",
             "source_artefacts",
             sources,
             "produced_by_role",
             role,
             "created_at_ms",
             "1761900000123"});
  auto event = fmt::format(
      R"({{"id":"{}","logical_id":"{}","version":1,"structural_type":"Standard","type":"{}",)"
      R"("payload":"\u003cx\u003e","source_artefacts":{},"produced_by_role":"{}",)"
      R"("created_at_ms":1761900000123}})",
      id, logical, type, sources, role);
  return {std::move(id), std::move(event)};
}

std::string go_artefact(RedisServer& redis, const std::string& type, const std::string& source,
                        const std::string& role, bool is_told) {
  auto [id, event] = write_go_artefact(redis, type, source, role);
  if (is_told) redis.cli({"PUBLISH", "holt:demo:artefact_events", event});
  return id;
}

std::string go_claim(RedisServer& redis, const std::string& artefact, const std::string& status,
                     const std::vector<std::string>& more) {
  auto id = uuid4();
  std::vector<std::string> words{"HSET",
                                 "holt:demo:claim:" + id,
                                 "id",
                                 id,
                                 "artefact_id",
                                 artefact,
                                 "status",
                                 status,
                                 "granted_review_agents",
                                 "[]",
                                 "granted_parallel_agents",
                                 "[]",
                                 "granted_exclusive_agent",
                                 "",
                                 "additional_context_ids",
                                 "null",
                                 "termination_reason",
                                 "",
                                 "phase_state",
                                 "",
                                 "grant_queue",
                                 "",
                                 "last_grant_agent",
                                 "",
                                 "last_grant_time",
                                 "0",
                                 "artefact_expected",
                                 "0",
                                 "granted_agent_image_id",
                                 ""};
  words.insert(words.end(), more.begin(), more.end());
  redis.cli(words);
  redis.cli({"SET", "holt:demo:claim_by_artefact:" + artefact, id});
  return id;
}

}  // namespace

TEST_CASE("what the Go program left is continued, and what it tells is heard") {
  auto agents = one_coder();
  agents.deliver = [](const std::string&, const Claim&, const Artefact&) {
    return std::optional(result(StructuralType::terminal));
  };
  with_server_and_agents(
      agents, [](Board& board, Agents& crew, RedisServer& redis) -> awaitable<void> {
        auto unclaimed = go_artefact(redis, "GoalDefined", "", "user", false);
        auto bidding = go_artefact(redis, "GoalDefined", "", "user", false);
        go_claim(redis, bidding, "pending_review", {});
        auto dormant = go_artefact(redis, "GoalDefined", "", "user", false);
        auto asleep = go_claim(redis, dormant, "pending_review", {});
        redis.cli({"HSET", "holt:demo:claim:" + asleep + ":bids", "coder", "ignore"});
        auto granted = go_artefact(redis, "GoalDefined", "", "user", false);
        go_claim(redis, granted, "pending_exclusive",
                 {"granted_exclusive_agent", "coder", "phase_state",
                  R"({"current":"exclusive","granted_agents":["coder"],"received":{},)"
                  R"("all_bids":{"coder":"exclusive"},"start_time_ms":1})"});
        auto delivered = go_artefact(redis, "GoalDefined", "", "user", false);
        go_claim(redis, delivered, "pending_parallel",
                 {"granted_parallel_agents", R"(["coder"])", "phase_state",
                  R"({"current":"parallel","granted_agents":["coder"],"received":{},)"
                  R"("all_bids":{"coder":"claim"},"start_time_ms":1})"});
        go_artefact(redis, "Code", delivered, "coder", false);
        redis.cli({"HSET", "holt:demo:claim:" + uuid4(), "status", "pending_consensus"});
        redis.cli({"SET", "holt:demo:artefact:" + uuid4(), "no hash"});

        Running running(board, terms_for(crew), 1);
        for (const auto& id : {unclaimed, bidding, granted, delivered})
          co_await eventually_claimed(board, id, ClaimStatus::complete);
        // A goal that all ignored: nobody has taken it, and nobody has ended it.
        auto is_left = [](Board& b, std::string& id) -> Async<> {
          auto claim = co_await b.claim_on(id);
          if (claim && is_untaken(*claim)) co_return ok;
          co_return fail(Errc::not_found, "{}", claim ? name(claim->status) : "no claim");
        };
        co_await eventually(20s, "it is untaken", is_left, board, dormant);
        auto told = go_artefact(redis, "GoalDefined", "", "user", true);
        co_await eventually_claimed(board, told, ClaimStatus::complete);
        auto is_listed = [](Board& b, std::string& id) -> Async<> {
          auto found = co_await b.find_artefact(id.substr(0, 13));
          if (!found) co_return std::unexpected(found.error());
          co_return ok;
        };
        co_await eventually(20s, "it is in the index", is_listed, board, told);
        co_await running.kill();
      });
}

TEST_CASE("a result that the Go program tells while its claim is read is not missed") {
  with_server_and_agents(
      one_coder(), [](Board& board, Agents& crew, RedisServer& redis) -> awaitable<void> {
        Running running(board, terms_for(crew), 1);
        auto goal = co_await new_goal(board);
        auto claim = co_await eventually_claimed(board, goal.id, ClaimStatus::pending_exclusive);
        co_await eventually(20s, "it hears everything", is_ready, running);
        auto result = write_go_artefact(redis, "Code", goal.id, "coder");
        // Because of the first event the claim is read, and no index has the result yet.
        auto doubt =
            fmt::format(R"({{"event":"claim_completed","data":{{"claim_id":"{}"}}}})", claim.id);
        redis.cli(
            {"EVAL",
             "redis.call('PUBLISH', KEYS[1], ARGV[1]) redis.call('PUBLISH', KEYS[2], ARGV[2])", "2",
             "holt:demo:workflow_events", "holt:demo:artefact_events", doubt, result.event});
        co_await eventually_claimed(board, goal.id, ClaimStatus::complete);
        co_await running.kill();
      });
}

TEST_CASE("a review that the Go program took counts, also when no index has it yet") {
  auto agents = one_coder();
  agents.roles.push_back("reviewer");
  with_server_and_agents(
      agents, [](Board& board, Agents& crew, RedisServer& redis) -> awaitable<void> {
        Running running(board, terms_for(crew), 1);
        co_await eventually(20s, "it hears everything", is_ready, running);
        auto goal = go_artefact(redis, "GoalDefined", "", "user", false);
        auto review = go_artefact(redis, "Review", goal, "reviewer", false);
        redis.cli({"HSET", "holt:demo:artefact:" + review, "payload", "{}"});
        auto claim =
            go_claim(redis, goal, "pending_review",
                     {"granted_review_agents", R"(["reviewer"])", "phase_state",
                      fmt::format(R"({{"current":"review","granted_agents":["reviewer"],)"
                                  R"("received":{{"reviewer":"{}"}},"start_time_ms":1,)"
                                  R"("all_bids":{{"coder":"exclusive","reviewer":"review"}}}})",
                                  review)});
        redis.cli({"PUBLISH", "holt:demo:claim_events",
                   fmt::format(R"({{"id":"{}","artefact_id":"{}","status":"pending_review"}})",
                               claim, goal)});
        auto approved = co_await eventually_claimed(board, goal, ClaimStatus::pending_exclusive);
        CHECK(approved.granted_exclusive_agent == "coder");
        co_await running.kill();
      });
}

TEST_CASE("events that cannot be read, and bids of strangers, disturb nobody") {
  auto agents = one_coder();
  agents.bid = {};
  with_server_and_agents(
      agents, [](Board& board, Agents& crew, RedisServer& redis) -> awaitable<void> {
        Running running(board, terms_for(crew), 1);
        co_await eventually(20s, "it is ready", is_ready, running);
        for (const auto* text : {"", "{", "[]", "{}", R"({"event":7})", R"({"event":"x","data":1})",
                                 R"({"event":"bid_submitted","data":{"claim_id":[]}})",
                                 R"({"event":"claim_terminated","data":{}})", "\xff\xfe"})
          for (const auto* channel : {"artefact_events", "claim_events", "workflow_events"})
            redis.cli({"PUBLISH", std::string("holt:demo:") + channel, text});
        auto goal = co_await new_goal(board);
        auto claim = co_await eventually_claimed(board, goal.id, ClaimStatus::pending_review);
        for (int i = 0; i < 5; ++i)
          value_of(co_await board.set_bid(claim.id, "stranger-" + std::to_string(i),
                                          BidType::exclusive));
        redis.cli({"HSET", "holt:demo:claim:" + claim.id + ":bids", "coder", "perhaps"});
        value_of(co_await board.set_bid(claim.id, "coder", BidType::exclusive));
        claim = co_await eventually_claimed(board, goal.id, ClaimStatus::pending_exclusive);
        CHECK(claim.granted_exclusive_agent == "coder");
        CHECK(claim.phase_state->all_bids.size() == 1);
        auto malformed = running.orchestrator().stats().malformed;
        CHECK(malformed > 10);
        co_await running.kill();
      });
}
