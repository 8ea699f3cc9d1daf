// An orchestrator on a real server, with agents that the test plays.
#include "base/uuid.h"
#include "services/board/orchestrator/control.h"
#include "with_orchestrator.h"

using namespace warren;
using namespace warren::board;

namespace {

bool is_over(Running& running) { return running.is_over(); }
bool is_ready(Running& running) { return running.orchestrator().is_ready(); }

awaitable<std::map<ClaimStatus, std::size_t>> claims_by_status(Board& board) {
  std::map<ClaimStatus, std::size_t> counts;
  Listing listing;
  listing.limit = 1000;
  for (auto status : claim_statuses) {
    auto found = value_of(co_await board.claims(status, listing)).items.size();
    if (found > 0) counts[status] = found;
  }
  co_return counts;
}

const std::map<ClaimStatus, std::size_t> newsroom_claims{{ClaimStatus::complete, 3},
                                                         {ClaimStatus::terminated, 1}};

}  // namespace

TEST_CASE("a goal goes through writing, a rejection, rework and publishing to its end") {
  with_server_and_agents(
      newsroom(), [](Board& board, Agents& agents, RedisServer& redis) -> awaitable<void> {
        Running running(board, terms_for(agents), 1);
        value_of(co_await board.create_artefact(artefact_of("GoalDefined", "a poem")));
        std::string type = "Published";
        std::size_t one = 1;
        co_await eventually(20s, "it is published", has_artefacts, board, type, one);
        co_await eventually(20s, "all claims are over", has_ended, board);
        auto claims = co_await claims_by_status(board);
        CHECK(claims == newsroom_claims);
        auto counts = value_of(co_await board.counts());
        CHECK(counts.artefacts == 6);
        auto all_told = [&agents] { return agents.ended.size() == 4; };
        co_await eventually(20s, "that was told", all_told);
        CHECK(agents.told["review_rejected"] == 1);
        CHECK(agents.told["review_approved"] == 1);
        CHECK(agents.told["feedback_claim_created"] == 1);
        CHECK(agents.told["claim_granted"] == 4);
        auto stats = running.orchestrator().stats();
        CHECK(stats.claims_created == 3);
        CHECK(stats.feedback_claims == 1);
        CHECK(stats.open_claims == 0);
        CHECK(redis.cli({"GET", fence_key(board)}) == "0 1");
        co_await running.kill();
      });
}

TEST_CASE("what happened while no orchestrator was there is taken up where it stands") {
  with_server_and_agents(
      newsroom(), [](Board& board, Agents& agents, RedisServer&) -> awaitable<void> {
        for (int i = 0; i < 5; ++i)
          value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
        Running running(board, terms_for(agents), 1);
        std::string type = "Published";
        std::size_t five = 5;
        co_await eventually(20s, "all are published", has_artefacts, board, type, five);
        co_await eventually(20s, "all claims are over", has_ended, board);
        co_await running.kill();
      });
}

TEST_CASE("after its connections broke, an orchestrator has missed nothing") {
  with_server_and_agents(
      newsroom(), [](Board& board, Agents& agents, RedisServer& redis) -> awaitable<void> {
        Running running(board, terms_for(agents), 1);
        co_await eventually(20s, "it is ready", is_ready, running);
        for (int i = 0; i < 20; ++i) {
          // What is published now is heard by nobody.
          redis.cli({"CLIENT", "KILL", "TYPE", i % 2 == 0 ? "pubsub" : "normal"});
          value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
        }
        std::string type = "Published";
        std::size_t all = 20;
        co_await eventually(30s, "all are published", has_artefacts, board, type, all);
        co_await eventually(30s, "all claims are over", has_ended, board);
        CHECK(running.orchestrator().stats().gaps > 0);
        auto claims = co_await claims_by_status(board);
        CHECK(claims == std::map<ClaimStatus, std::size_t>{{ClaimStatus::complete, 60},
                                                           {ClaimStatus::terminated, 20}});
        co_await running.kill();
      });
}

TEST_CASE("of two orchestrators the one with the older token stops, and nothing is done twice") {
  with_server_and_agents(
      newsroom(), [](Board& board, Agents& agents, RedisServer&) -> awaitable<void> {
        Running old(board, terms_for(agents), 1);
        co_await eventually(20s, "it is ready", is_ready, old);
        value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
        Running next(board, terms_for(agents), 2);
        for (int i = 0; i < 10; ++i)
          value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
        std::string type = "Published";
        std::size_t all = 11;
        co_await eventually(20s, "all are published", has_artefacts, board, type, all);
        co_await eventually(20s, "all claims are over", has_ended, board);
        co_await eventually(20s, "the old one is over", is_over, old);
        REQUIRE(old.ended());
        CHECK(old.ended()->code == Errc::lease_lost);
        CHECK(!old.orchestrator().is_ready());
        CHECK(!next.is_over());
        auto all_told = [&agents] { return agents.ended.size() == 44; };
        co_await eventually(20s, "that was told", all_told);
        for (const auto& [claim, times] : agents.granted) CHECK(times == 1);
        for (const auto& [claim, times] : agents.ended) CHECK(times == 1);
        co_await next.kill();
      });
}

TEST_CASE("an agent that does not bid or does not deliver delays no other claim") {
  auto agents = newsroom();
  agents.bid = [bid = agents.bid](const std::string& role,
                                  const Artefact& target) -> std::optional<BidType> {
    if (target.payload == "no bid" && role == "reviewer") return {};
    return bid(role, target);
  };
  agents.deliver = [deliver = agents.deliver](const std::string& role, const Claim& claim,
                                              const Artefact& target) -> std::optional<Artefact> {
    if (target.payload == "no result") return {};
    return deliver(role, claim, target);
  };
  with_server_and_agents(agents, [](Board& board, Agents& crew, RedisServer&) -> awaitable<void> {
    Running running(board, terms_for(crew), 1);
    co_await eventually(20s, "it is ready", is_ready, running);
    for (int i = 0; i < 150; ++i) {
      value_of(co_await board.create_artefact(artefact_of("GoalDefined", "no bid")));
      value_of(co_await board.create_artefact(artefact_of("GoalDefined", "no result")));
    }
    value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
    std::string type = "Published";
    std::size_t one = 1;
    co_await eventually(20s, "the other one is published", has_artefacts, board, type, one);
    auto counts = value_of(co_await board.counts());
    CHECK(counts.open_claims >= 300);
    co_await running.kill();
  });
}

TEST_CASE("after the time for bids a missing one counts as ignore, and that is told") {
  with_server_and_agents(newsroom(),
                         [](Board& board, Agents& crew, RedisServer&) -> awaitable<void> {
                           auto terms = terms_for(crew);
                           terms.roles["absent"] = {};
                           terms.bid_time = 300ms;
                           Running running(board, terms, 1);
                           value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
                           auto is_told = [&crew] { return crew.told["bids_missing"] > 0; };
                           co_await eventually(20s, "it is told", is_told);
                           co_await eventually(20s, "all claims are over", has_ended, board);
                           co_await running.kill();
                         });
}

TEST_CASE("a goal that nobody bids for in time stays open, and whoever comes later works on it") {
  Agents agents{{"coder", "reviewer"}, {}, {}};
  agents.deliver = [](const std::string&, const Claim&, const Artefact&) {
    auto made = artefact_of("Done");
    made.structural_type = StructuralType::terminal;
    return std::optional(made);
  };
  with_server_and_agents(
      agents, [](Board& board, Agents& crew, RedisServer& redis) -> awaitable<void> {
        auto terms = terms_for(crew);
        terms.bid_time = 300ms;
        Running running(board, terms, 1);
        auto goal = value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
        auto is_told = [&crew] { return crew.told["claim_untaken"] > 0; };
        co_await eventually(20s, "it is told", is_told);
        auto claim = value_of(co_await board.claim_on(goal.id));
        CHECK(claim.status == ClaimStatus::pending_review);
        CHECK(is_untaken(claim));
        CHECK(value_of(co_await orchestrator::count_untaken(board)) == 1);
        auto why = value_of(co_await orchestrator::explain(board, claim.id, terms));
        CHECK_MESSAGE(why.text.contains("nobody has taken it since"), why.text);
        CHECK_MESSAGE(why.text.contains("coder, reviewer"), why.text);
        auto refused = error_of(co_await orchestrator::retry(board, claim.id));
        CHECK_MESSAGE(refused.what.contains("is taken up when one comes"), refused.what);
        // What a Go program reads of it is a claim that waits for bids.
        CHECK(redis.cli({"HGET", board.keys().claim(claim.id), "status"}) == "pending_review");
        CHECK(redis.cli({"HGET", board.keys().claim(claim.id), "phase_state"}).empty());
        value_of(co_await board.set_bid(claim.id, "coder", BidType::exclusive));
        co_await eventually(20s, "all claims are over", has_ended, board);
        CHECK(crew.told["claim_untaken"] == 1);
        CHECK(crew.told["bids_missing"] == 1);
        CHECK(value_of(co_await orchestrator::count_untaken(board)) == 0);
        auto done = value_of(co_await board.claim(claim.id));
        CHECK(done.status == ClaimStatus::complete);
        CHECK(done.untaken_since == UnixTime{});
        co_await running.kill();
      });
}

TEST_CASE("a thousand goals through three bids each") {
  Agents agents{{"a", "b", "c"}, {}, {}};
  agents.bid = [](const std::string& role, const Artefact&) {
    return role == "b" ? BidType::exclusive : BidType::ignore;
  };
  agents.deliver = [](const std::string&, const Claim&, const Artefact&) {
    auto made = artefact_of("Done");
    made.structural_type = StructuralType::terminal;
    return std::optional(made);
  };
  with_server_and_agents(agents, [](Board& board, Agents& crew, RedisServer&) -> awaitable<void> {
    Running running(board, terms_for(crew), 1);
    for (int i = 0; i < 1000; ++i)
      value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
    std::string type = "Done";
    std::size_t all = 1000;
    co_await eventually(100s, "all are done", has_artefacts, board, type, all);
    co_await eventually(20s, "all claims are over", has_ended, board);
    auto all_told = [&crew] { return crew.ended.size() == 1000; };
    co_await eventually(20s, "that was told", all_told);
    CHECK(crew.granted.size() == 1000);
    CHECK(running.orchestrator().stats().claims_completed == 1000);
    CHECK(running.orchestrator().stats().errors == 0);
    co_await running.kill();
  });
}

TEST_CASE("in a cluster an orchestrator works as anywhere else") {
  RedisCluster cluster;
  with_board(settings_for(cluster), [](Board& board) -> awaitable<void> {
    auto agents = newsroom();
    co_await with_agents(board, agents, [](Board& b, Agents& crew) -> awaitable<void> {
      Running running(b, terms_for(crew), 1);
      value_of(co_await b.create_artefact(artefact_of("GoalDefined")));
      std::string type = "Published";
      std::size_t one = 1;
      co_await eventually(20s, "it is published", has_artefacts, b, type, one);
      co_await eventually(20s, "all claims are over", has_ended, b);
      auto claims = co_await claims_by_status(b);
      CHECK(claims == newsroom_claims);
      co_await running.kill();
    });
  });
}
