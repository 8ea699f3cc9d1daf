// An orchestrator whose machine's clock is set while it works.
#include <fstream>

#include "proof/testkit/process.h"
#include "proof/torture/clocks.h"
#include "with_board.h"

using namespace warren;
using namespace warren::board;

namespace fs = std::filesystem;

namespace {

constexpr auto two_roles = R"(version: "1.0"
agents:
  Reader: {command: ["true"], bidding_strategy: review}
  Writer: {command: ["true"], bidding_strategy: exclusive}
)";

// The agents of the instance are this test; 30 seconds are the time for bids.
Program orchestrate(const fs::path& folder, const RedisServer& server,
                    const torture::Clocks& clocks) {
  Program program{{"env", "-C", folder, WARREN_BINARY, "orchestrate", "--prefix", "holt", "--name",
                   "demo", "--no-agents"},
                  folder / "log",
                  clocks.environment()};
  program.environment.push_back("HOME=" + folder.string());
  program.environment.push_back("REDIS_URL=redis://" + server.address());
  return program;
}

Async<Claim> granted(Board& board, std::string& id) {
  auto claim = co_await board.claim(id);
  if (claim && claim->granted_exclusive_agent.empty())
    co_return fail(Errc::not_found, "it is {}", name(claim->status));
  co_return claim;
}

}  // namespace

TEST_CASE("a clock that is set a minute ahead does not end the time for bids") {
  RedisServer server;
  TempFolder folder;
  torture::Clocks clocks(fs::path(WARREN_BINARY).parent_path() / "warren-clock.so");
  std::ofstream(folder.path() / "warren.yml") << two_roles;
  Process orchestrator(orchestrate(folder.path(), server, clocks));
  auto body = [](Board& board, Process& child, torture::Clocks& set) -> awaitable<void> {
    auto goal = value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
    auto has_claim = [](Board& on, std::string& artefact) { return on.claim_on(artefact); };
    auto claim = co_await eventually(30s, "the goal has a claim", has_claim, board, goal.id);
    set.set(child.pid(), 60s);
    value_of(co_await board.set_bid(claim.id, "Writer", BidType::exclusive));
    // What is heard later is claimed later: by then it has looked at that bid, and waits.
    auto later = value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
    co_await eventually(30s, "the later goal has a claim", has_claim, board, later.id);
    claim = value_of(co_await board.claim(claim.id));
    CHECK(claim.status == ClaimStatus::pending_review);
    CHECK(claim.granted_exclusive_agent.empty());
    value_of(co_await board.set_bid(claim.id, "Reader", BidType::ignore));
    claim = co_await eventually(20s, "the writer has it", granted, board, claim.id);
    CHECK(claim.granted_exclusive_agent == "Writer");
    set.set(child.pid(), -3600s);
    // What is written down has the time that the machine believes in.
    auto next = value_of(co_await board.create_artefact(artefact_of("GoalDefined")));
    auto other = co_await eventually(30s, "the next one has a claim", has_claim, board, next.id);
    value_of(co_await board.set_bid(other.id, "Reader", BidType::ignore));
    value_of(co_await board.set_bid(other.id, "Writer", BidType::exclusive));
    other = co_await eventually(20s, "the writer has that", granted, board, other.id);
    CHECK(other.phase_state->start_time < claim.phase_state->start_time);
  };
  with_board(settings_for(server), body, orchestrator, clocks);
}
