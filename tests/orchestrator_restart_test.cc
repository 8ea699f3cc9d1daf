// Orchestrators that are killed and followed by others, at every step that one can take.
#include "base/uuid.h"
#include "with_orchestrator.h"

using namespace warren;
using namespace warren::board;

namespace {

enum class Death { before_the_write, after_sending_it };

// Counts the writes of one orchestrator, and ends it at one of them.
struct Killer {
  int writes = 0;
  int fatal_write;
  Death death;
  Running* victim = nullptr;
};

Running::Fencing fencing(Board& board, std::uint64_t token, Killer& killer) {
  return [key = fence_key(board), token, &killer, &board]() -> std::optional<Fence> {
    if (++killer.writes < killer.fatal_write) return Fence{key, {0, token}};
    if (killer.death == Death::before_the_write) return Fence{key, {0, 1}};  // refused
    asio::post(board.client().executor(), [&killer] {
      if (killer.victim) killer.victim->kill_soon();
    });
    return Fence{key, {0, token}};
  };
}

// One goal from beginning to end, with each orchestrator living for so many writes.
awaitable<void> survive(Board& board, Agents& agents, int life, Death death) {
  std::string type = "Published";
  std::size_t one = 1;
  value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
  std::uint64_t token = 10;
  for (;;) {
    Killer killer{0, life + 1, death};
    Running running(board, terms_for(agents), fencing(board, ++token, killer));
    killer.victim = &running;
    auto done = [](Board& b, Running& r) -> Async<> {
      if (r.is_over()) co_return ok;
      co_return co_await has_ended(b);
    };
    co_await eventually(20s, "all claims are over, or the orchestrator is", done, board, running);
    killer.victim = nullptr;
    co_await running.kill();
    auto ended = co_await has_ended(board);
    if (ended) break;
    REQUIRE_MESSAGE(token < 100, "it goes on");
  }
  co_await eventually(20s, "it is published", has_artefacts, board, type, one);
}

// Nothing was done twice.
awaitable<void> check_newsroom(Board& board, Agents& agents) {
  auto counts = value_of(co_await board.counts());
  CHECK(counts.artefacts == 6);
  CHECK(counts.open_claims == 0);
  auto all_told = [&agents] { return agents.ended.size() == 4; };
  co_await eventually(20s, "that was told", all_told);
  CHECK(agents.granted.size() == 4);
  for (const auto& [claim, times] : agents.granted) CHECK(times == 1);
  for (const auto& [claim, times] : agents.ended) CHECK(times == 1);
  CHECK(agents.told["feedback_claim_created"] == 1);
  CHECK(agents.told["review_rejected"] == 1);
  CHECK(agents.told["review_approved"] == 1);
  Listing listing;
  auto complete = value_of(co_await board.claims(ClaimStatus::complete, listing));
  CHECK(complete.items.size() == 3);
}

}  // namespace

TEST_CASE(
    "an orchestrator killed at any write is continued by the next, and nothing is done twice") {
  RedisServer server;
  for (auto death : {Death::before_the_write, Death::after_sending_it}) {
    for (int life = 1; life <= 12; ++life) {
      CAPTURE(life);
      server.cli({"FLUSHALL"});
      server.cli({"SET", "holt:demo:x:orchestrating:fence", "0 10"});
      auto agents = newsroom();
      with_board(
          settings_for(server),
          [](Board& board, Agents& crew, int& writes, Death& how) -> awaitable<void> {
            auto body = [](Board& b, Agents& c, int& n, Death& h) -> awaitable<void> {
              co_await survive(b, c, n, h);
              co_await check_newsroom(b, c);
            };
            co_await with_agents(board, crew, body, writes, how);
          },
          agents, life, death);
    }
  }
}

TEST_CASE("an orchestrator killed at any event is continued by the next") {
  RedisServer server;
  for (std::size_t fatal_event = 1; fatal_event <= 40; fatal_event += 3) {
    CAPTURE(fatal_event);
    server.cli({"FLUSHALL"});
    auto agents = newsroom();
    with_board(
        settings_for(server),
        [](Board& board, Agents& crew, std::size_t& at) -> awaitable<void> {
          auto body = [](Board& b, Agents& c, std::size_t& n) -> awaitable<void> {
            auto seen = [&c, &n] { return c.heard.size() >= n || c.told["claim_completed"] == 3; };
            Running first(b, terms_for(c), 1);
            value_of(co_await b.create_artefact(artefact_of("GoalDefined")));
            co_await eventually(20s, "so much has happened", seen);
            co_await first.kill();
            Running second(b, terms_for(c), 2);
            co_await eventually(20s, "all claims are over", has_ended, b);
            co_await check_newsroom(b, c);
            co_await second.kill();
          };
          co_await with_agents(board, crew, body, at);
        },
        agents, fatal_event);
  }
}

namespace {

// Three open claims: two are worked on, and one waits for its worker. None of the goals is told of
// again, and what is delivered now is heard by nobody.
awaitable<Words> leave_open_claims(Board& board, Agents& agents, OrchestratorTerms& terms) {
  Running first(board, terms, 1);
  for (int i = 0; i < 3; ++i) value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
  auto is_full = [&agents] {
    return agents.granted.size() == 2 && agents.told["claim_queued"] == 1;
  };
  co_await eventually(20s, "two are granted, and one waits", is_full);
  co_await first.kill();
  Listing listing;
  Words ids;
  for (const auto& claim :
       value_of(co_await board.claims(ClaimStatus::pending_exclusive, listing)).items)
    if (!claim.granted_exclusive_agent.empty()) ids.push_back(claim.id);
  co_return ids;
}

awaitable<void> deliver(Board& board, std::string claim_id) {
  auto claim = value_of(co_await board.claim(claim_id));
  auto done = artefact_of("Done");
  done.structural_type = StructuralType::terminal;
  done.produced_by_role = "coder";
  done.source_artefacts = {claim.artefact_id};
  value_of(co_await board.create_artefact(done));
}

}  // namespace

TEST_CASE("the first look of the next orchestrator finds every open claim, and goes on with it") {
  Agents agents{{"coder"}, {}, {}};
  agents.bid = [](const std::string&, const Artefact&) { return BidType::exclusive; };
  with_server_and_agents(
      agents, [](Board& board, Agents& crew, RedisServer& redis) -> awaitable<void> {
        auto terms = terms_for(crew);
        terms.roles["coder"].max_concurrent = 2;
        terms.sweep_every = 1h;  // so that nothing here is owed to a second look
        auto open = co_await leave_open_claims(board, crew, terms);
        REQUIRE(open.size() == 2);
        co_await deliver(board, open[0]);
        // Without it the indexes are made first, and not while it works, with a look behind that.
        redis.cli({"DEL", board.keys().artefact_ids()});
        Running next(board, terms, 2);
        co_await next.orchestrator().ready();
        CHECK(next.orchestrator().stats().sweeps == 1);
        auto goes_on = [&crew] { return crew.ended.size() == 1 && crew.granted.size() == 3; };
        co_await eventually(20s, "what was delivered is ended, and who waited has its turn",
                            goes_on);
        for (const auto& [claim, times] : crew.granted) CHECK(times == 1);
        CHECK(next.orchestrator().stats().open_claims == 2);
        CHECK(next.orchestrator().stats().sweeps == 1);
        co_await next.kill();
      });
}

TEST_CASE("nobody is granted anything before the next orchestrator knows who has grants") {
  Agents agents{{"coder"}, {}, {}};
  agents.bid = [](const std::string&, const Artefact&) { return BidType::exclusive; };
  with_server_and_agents(
      agents, [](Board& board, Agents& crew, RedisServer& redis) -> awaitable<void> {
        auto terms = terms_for(crew);
        terms.roles["coder"].max_concurrent = 2;
        auto open = co_await leave_open_claims(board, crew, terms);
        REQUIRE(open.size() == 2);
        redis.cli({"ACL", "SETUSER", "default", "-smembers"});  // which only its look needs
        Running next(board, terms, 2);
        auto has_failed = [&next](std::uint64_t times) {
          return next.orchestrator().stats().errors >= times;
        };
        co_await eventually(20s, "its first look has failed", [&] { return has_failed(1); });
        value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
        co_await eventually(20s, "its third one too", [&] { return has_failed(3); });
        CHECK(crew.granted.size() == 2);

        redis.cli({"ACL", "SETUSER", "default", "+smembers"});
        co_await deliver(board, open[0]);
        auto goes_on = [&crew] { return crew.ended.size() == 1 && crew.granted.size() == 3; };
        co_await eventually(20s, "who waited has its turn", goes_on);
        for (const auto& [claim, times] : crew.granted) CHECK(times == 1);
        co_await next.kill();
      });
}

namespace {

// How many exclusive grants are open, by what was told.
struct Load {
  std::set<std::string> claims;
  std::size_t most = 0;
};

Load load_of(const Agents& agents) {
  Load load;
  for (const auto& event : agents.heard) {
    const auto* workflow = std::get_if<WorkflowEvent>(&event);
    if (!workflow) continue;
    auto claim = parts::text(workflow->data.if_contains("claim_id")).value_or("");
    if (workflow->name == "claim_granted") load.claims.insert(claim);
    if (workflow->name == "claim_completed") load.claims.erase(claim);
    load.most = std::max(load.most, load.claims.size());
  }
  return load;
}

// Each of thirty goals is worked on under another orchestrator.
awaitable<void> work_under_many(Board& board, Agents& agents) {
  constexpr std::size_t goals = 30, most = 3;
  auto terms = terms_for(agents);
  terms.roles["coder"].max_concurrent = most;
  for (std::size_t i = 0; i < goals; ++i)
    value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
  for (std::size_t round = 0; round < goals; ++round) {
    Running running(board, terms, round + 1);
    auto expected = std::min(most, goals - round);
    auto is_full = [&] {
      return agents.ended.size() == round && load_of(agents).claims.size() == expected;
    };
    co_await eventually(20s, "as many as may be are granted", is_full);
    if (round % 3 == 0) co_await running.kill();  // what is delivered now is heard by nobody
    co_await deliver(board, *load_of(agents).claims.begin());
    auto is_told = [&] { return agents.ended.size() == round + 1; };
    if (round % 3 == 1) co_await eventually(20s, "that was told", is_told);
    co_await running.kill();
  }
  Running last(board, terms, goals + 1);
  co_await eventually(20s, "all claims are over", has_ended, board);
  auto all_told = [&] { return agents.ended.size() == goals; };
  co_await eventually(20s, "that was told", all_told);
  CHECK(load_of(agents).most == most);
  CHECK(agents.granted.size() == goals);
  for (const auto& [claim, times] : agents.granted) CHECK(times == 1);
  co_await last.kill();
}

}  // namespace

TEST_CASE("a role never has more grants than it may have, also while orchestrators come and go") {
  Agents agents{{"coder"}, {}, {}};
  agents.bid = [](const std::string&, const Artefact&) { return BidType::exclusive; };
  with_server_and_agents(agents, [](Board& board, Agents& crew, RedisServer&) -> awaitable<void> {
    co_await work_under_many(board, crew);
  });
}
