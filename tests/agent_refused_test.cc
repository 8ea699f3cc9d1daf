// A server that refuses writes, for a time or for good: what an agent made is not lost with it, and
// no goal hangs.
#include "services/board/orchestrator/control.h"
#include "with_agent.h"
#include "with_orchestrator.h"

using namespace warren;
using namespace warren::board;
using namespace warren::working;

namespace {

// How often the server has answered with this error.
int refusals(RedisServer& redis, const std::string& word) {
  auto stats = redis.cli({"INFO", "errorstats"});
  auto begin = "errorstat_" + word + ":count=";
  auto at = stats.find(begin);
  return at == stats.npos ? 0 : std::atoi(stats.c_str() + at + begin.size());
}

// A server without memory: whatever writes is refused with OOM.
struct NoMemory {
  static constexpr auto word = "OOM";
  static void begin(RedisServer& redis) { redis.cli({"CONFIG", "SET", "maxmemory", "1"}); }
  static void end(RedisServer& redis) { redis.cli({"CONFIG", "SET", "maxmemory", "0"}); }
};

// A server that cannot save: whatever writes is refused with MISCONF.
struct NoDisk {
  static constexpr auto word = "MISCONF";
  static void begin(RedisServer& redis) {
    std::filesystem::create_directory(redis.folder() / "dump.rdb");  // no file takes its place
    redis.cli({"CONFIG", "SET", "save", "3600 1"});
    save(redis, "err");
  }
  static void end(RedisServer& redis) {
    std::filesystem::remove(redis.folder() / "dump.rdb");
    save(redis, "ok");
  }
  static void save(RedisServer& redis, const std::string& outcome) {
    redis.cli({"BGSAVE"});
    wait_for(10s, "it has tried to save", [&] {
      return redis.info("rdb_bgsave_in_progress") == "0" &&
             redis.info("rdb_last_bgsave_status") == outcome;
    });
  }
};

// Waits for `go` before it answers.
std::string patient(const std::string& answer = code) {
  return counted("while ! test -e go; do sleep 0.02; done; " + answer);
}

constexpr std::size_t payload_bytes = 1'000'000;

std::string large_code() {
  return fmt::format(R"(printf '{{"artefact_type":"Code","summary":"s","artefact_payload":"'
                        head -c {} /dev/zero | tr '\0' x; echo '"}}')",
                     payload_bytes);
}

void let_go(const TempFolder& folder) { std::ofstream(folder.path() / "go") << "go"; }

awaitable<void> await_refusal(RedisServer& redis, const char* word, int count = 1) {
  co_await eventually(20s, "a write was refused",
                      [&, word] { return refusals(redis, word) >= count; });
}

// Has a key that cannot be what it should be: what needs it is refused for good.
void spoil(RedisServer& redis, const std::string& key) { redis.cli({"SET", key, "spoilt"}); }

OrchestratorTerms coder_terms() {
  OrchestratorTerms terms;
  terms.roles["Coder"] = {};
  terms.bid_time = terms.sweep_every = 1h;  // so that nothing here is owed to these
  return terms;
}

// An orchestrator and an agent, beside the body.
template <class Body>
void with_goal(Body body) {
  RedisServer server;
  TempFolder folder;
  auto staffed = [](Board& on, Agent&, RedisServer& redis, TempFolder& where,
                    Body& then) -> awaitable<void> {
    Running running(on, coder_terms(), 1);
    co_await running.orchestrator().ready();
    co_await then(on, redis, where, running);
    co_await running.kill();
  };
  auto opened = [](Board& board, RedisServer& redis, TempFolder& where, Body& then,
                   decltype(staffed)& inner) -> awaitable<void> {
    auto terms = role_of(where, patient());
    terms.role.bids_on.types = {"GoalDefined"};
    co_await with_agent(board, std::move(terms), inner, redis, where, then);
  };
  with_board(settings_for(server), opened, server, folder, body, staffed);
}

awaitable<Claim> ended_claim(Board& board, std::string artefact_id) {
  auto fact = [](Board& asked, std::string& on) -> Async<Claim> {
    auto claim = co_await asked.claim_on(on);
    if (claim && is_open(claim->status)) co_return fail(Errc::not_found, "{}", to_json(*claim));
    co_return claim;
  };
  co_return co_await eventually(30s, "its claim is over", fact, board, artefact_id);
}

}  // namespace

TEST_CASE_TEMPLATE("a result that the server refuses for a time is kept, and written afterwards",
                   Trouble, NoMemory, NoDisk) {
  on_board([](Board& board, RedisServer& redis, TempFolder& folder) -> awaitable<void> {
    auto body = [](Board& on, Agent& self, RedisServer& server,
                   TempFolder& where) -> awaitable<void> {
      auto claim = co_await goal(on);
      co_await grant(on, claim);
      co_await eventually(10s, "the tool runs", [&] { return runs(where) == 1; });
      Trouble::begin(server);
      let_go(where);
      co_await await_refusal(server, Trouble::word, 3);
      CHECK(self.stats().running == 1);  // its grant is not over
      Trouble::end(server);
      auto result = co_await result_of(on, claim);
      CHECK(result.type == "Code");
      co_await eventually(10s, "it knows", [&] { return self.stats().results == 1; });
      CHECK(runs(where) == 1);
    };
    co_await with_agent(board, role_of(folder, patient()), body, redis, folder);
  });
}

TEST_CASE("a result that the server has no room for now is kept, though a failure would fit") {
  on_board([](Board& board, RedisServer& redis, TempFolder& folder) -> awaitable<void> {
    auto body = [](Board& on, Agent& self, RedisServer& server,
                   TempFolder& where) -> awaitable<void> {
      auto claim = co_await goal(on);
      co_await grant(on, claim);
      co_await eventually(10s, "the tool runs", [&] { return runs(where) == 1; });
      // The payload is in the server three times while it is written, and once for a while after.
      auto most = std::stoul(server.info("used_memory")) + 2 * payload_bytes;
      server.cli({"CONFIG", "SET", "maxmemory", std::to_string(most)});
      let_go(where);
      co_await eventually(20s, "it was refused, or given up", [&] {
        return refusals(server, NoMemory::word) >= 3 || self.stats().failures > 0;
      });
      CHECK(self.stats().failures == 0);
      NoMemory::end(server);
      auto result = co_await result_of(on, claim);
      CHECK(result.type == "Code");
      CHECK(result.payload.size() == payload_bytes);
      CHECK(runs(where) == 1);
    };
    co_await with_agent(board, role_of(folder, patient(large_code())), body, redis, folder);
  });
}

TEST_CASE("a bid that the server refuses for a time is made afterwards") {
  on_board([](Board& board, RedisServer& redis, TempFolder& folder) -> awaitable<void> {
    auto body = [](Board& on, Agent&, RedisServer& server) -> awaitable<void> {
      auto target = value_of(co_await on.create_artefact(artefact_of("GoalDefined")));
      auto wanted = claim_on(target);
      wanted.id = "22222222-2222-4222-8222-222222222222";
      NoMemory::begin(server);
      Announcement news = wanted;  // the claim itself is told before it is there
      value_of(co_await on.announce(std::move(news)));
      co_await await_refusal(server, NoMemory::word);
      NoMemory::end(server);
      auto bid = co_await bid_on(on, wanted);
      CHECK(bid == BidType::exclusive);
    };
    co_await with_agent(board, role_of(folder, code), body, redis);
  });
}

TEST_CASE("a result is dropped when its grant is over before the server takes it") {
  on_board([](Board& board, RedisServer& redis, TempFolder& folder) -> awaitable<void> {
    auto body = [](Board& on, Agent& self, RedisServer& server,
                   TempFolder& where) -> awaitable<void> {
      auto claim = co_await goal(on);
      co_await grant(on, claim);
      co_await eventually(10s, "the tool runs", [&] { return runs(where) == 1; });
      NoMemory::begin(server);
      let_go(where);
      co_await await_refusal(server, NoMemory::word);
      server.cli({"DEL", on.keys().claim(claim.id)});  // takes no memory
      co_await eventually(20s, "it gives up", [&] { return self.stats().running == 0; });
      NoMemory::end(server);
      auto result = co_await on.artefact(result_id(claim.id, "Coder"));
      CHECK(error_of(std::move(result)).code == Errc::not_found);
    };
    co_await with_agent(board, role_of(folder, patient()), body, redis, folder);
  });
}

TEST_CASE_TEMPLATE("a goal is reached although the server refused every write for a time", Trouble,
                   NoMemory, NoDisk) {
  with_goal([](Board& board, RedisServer& redis, TempFolder& folder,
               Running& running) -> awaitable<void> {
    auto target = value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
    co_await eventually(10s, "the tool runs", [&] { return runs(folder) == 1; });
    Trouble::begin(redis);
    let_go(folder);
    co_await await_refusal(redis, Trouble::word);
    Trouble::end(redis);
    auto claim = co_await ended_claim(board, target.id);
    CHECK(claim.status == ClaimStatus::complete);
    CHECK(runs(folder) == 1);
    CHECK(!running.is_over());
  });
}

TEST_CASE_TEMPLATE("an orchestrator that is refused its writes goes on when they are taken again",
                   Trouble, NoMemory, NoDisk) {
  on_board([](Board& board, RedisServer& redis, TempFolder& folder) -> awaitable<void> {
    auto body = [](Board& on, Agent&, RedisServer& server) -> awaitable<void> {
      auto target = value_of(co_await on.create_artefact(artefact_of("GoalDefined")));
      Trouble::begin(server);
      Running running(on, coder_terms(), 1);
      co_await await_refusal(server, Trouble::word);
      Trouble::end(server);
      auto claim = co_await ended_claim(on, target.id);
      CHECK(claim.status == ClaimStatus::complete);
      co_await running.kill();
    };
    auto terms = role_of(folder, code);
    terms.role.bids_on.types = {"GoalDefined"};
    co_await with_agent(board, std::move(terms), body, redis);
  });
}

TEST_CASE("a result that can never be written becomes a failure, which ends its claim") {
  with_goal([](Board& board, RedisServer& redis, TempFolder& folder, Running&) -> awaitable<void> {
    auto target = value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
    co_await eventually(10s, "the tool runs", [&] { return runs(folder) == 1; });
    spoil(redis, board.keys().artefacts("Code"));
    let_go(folder);
    auto claim = co_await ended_claim(board, target.id);
    CHECK(claim.status == ClaimStatus::terminated);
    CHECK_MESSAGE(claim.termination_reason.contains("Coder failed, see artefact"),
                  claim.termination_reason);
    auto failure = value_of(co_await board.artefact(result_id(claim.id, "Coder")));
    CHECK(failure.structural_type == StructuralType::failure);
    CHECK_MESSAGE(failure.payload.contains("could not be written: WRONGTYPE"), failure.payload);
    redis.cli({"DEL", board.keys().artefacts("Code")});
    value_of(co_await orchestrator::retry(board, claim.id));
    auto again = co_await ended_claim(board, target.id);
    CHECK(again.status == ClaimStatus::complete);
    CHECK(runs(folder) == 2);
  });
}

TEST_CASE("where not even a failure can be written, the claim ends and says why") {
  with_goal([](Board& board, RedisServer& redis, TempFolder& folder, Running&) -> awaitable<void> {
    auto target = value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
    co_await eventually(10s, "the tool runs", [&] { return runs(folder) == 1; });
    spoil(redis, board.keys().types());
    let_go(folder);
    auto claim = co_await ended_claim(board, target.id);
    CHECK(claim.status == ClaimStatus::terminated);
    CHECK_MESSAGE(claim.termination_reason.contains("could not be written: WRONGTYPE"),
                  claim.termination_reason);
    redis.cli({"DEL", board.keys().types()});
    value_of(co_await orchestrator::retry(board, claim.id));
    auto again = co_await ended_claim(board, target.id);
    CHECK(again.status == ClaimStatus::complete);
    CHECK(runs(folder) == 2);
  });
}
