// The commands about instances, as a user meets them: destroy, and what up warns of.
#include <fstream>

#include "primitives/lease/lease.h"
#include "proof/testkit/faulty_link.h"
#include "proof/testkit/process.h"
#include "services/instance/entry.h"
#include "with_board.h"
#include "with_loading.h"

using namespace warren;
using namespace warren::board;
namespace fs = std::filesystem;

namespace {

struct Outcome {
  int exit;
  std::string said;
};

Outcome run_holt(const fs::path& folder, std::vector<std::string> words,
                 std::vector<std::string> environment, Clock::duration limit = 60s) {
  fs::remove(folder / "log");
  Program program{{"env", "-C", folder, fs::path(WARREN_BINARY).parent_path() / "holt"},
                  folder / "log",
                  {"HOME=" + folder.string(), "XDG_STATE_HOME=" + folder.string()}};
  program.argv.insert(program.argv.end(), words.begin(), words.end());
  program.environment.insert(program.environment.end(), environment.begin(), environment.end());
  Process process(program);
  auto exit = process.wait(limit);
  std::ifstream file(folder / "log");
  return {exit, {std::istreambuf_iterator<char>(file), {}}};
}

std::vector<std::string> way_to(const RedisServer& server) {
  return {"REDIS_URL=redis://" + server.address()};
}

std::vector<std::string> way_to(RedisCluster& cluster) {
  return {"REDIS_MODE=cluster", "REDIS_ADDRS=" + cluster.node(0).address()};
}

// An orchestrator that was one, as it was told; what it sends comes late.
awaitable<Fence> former_orchestrator(Board& board) {
  LeaseRoom room{board.keys().sessions(), board.keys().sessions()};
  LeaseSession session(board.client(), 15s, std::move(room));
  LeaseTerms terms{board.keys().orchestrator(), "the first"};
  auto lease = co_await session.acquire(std::move(terms), Clock::now() + 10s);
  REQUIRE_MESSAGE(lease, lease.error().what);
  Fence fence{lease->fence(), lease->token()};
  value_of(co_await lease->release());
  co_await session.close();
  co_return fence;
}

template <class Redis>
void destroy_keeps_out(Redis& redis) {
  TempFolder folder;
  auto way = way_to(redis);
  auto body = [](Board& board, TempFolder& where,
                 std::vector<std::string>& environment) -> awaitable<void> {
    WriteTerms late;
    late.fence = co_await former_orchestrator(board);
    auto goal = value_of(co_await board.create_artefact(artefact_of("GoalDefined"), late));
    auto words = std::vector<std::string>{"destroy", "--name", "demo", "--yes-name", "demo"};
    auto destroyed = run_holt(where.path(), std::move(words), environment);
    REQUIRE_MESSAGE(destroyed.exit == 0, destroyed.said);
    CHECK_MESSAGE(destroyed.said.contains("(1 artefacts, 0 claims)"), destroyed.said);
    auto refused = co_await board.create_claim(claim_on(goal), late);
    CHECK(error_of(std::move(refused)).code == Errc::lease_lost);
    auto counts = value_of(co_await board.counts());
    CHECK(counts.artefacts == 0);
    CHECK(counts.open_claims == 0);
    // Of what stays nobody is told: there is no such instance.
    words = {"destroy", "--name", "demo", "--yes-name", "demo"};
    auto again = run_holt(where.path(), std::move(words), environment);
    CHECK(again.exit != 0);
    CHECK_MESSAGE(again.said.contains("there is no instance 'demo'"), again.said);
  };
  with_board(settings_for(redis), body, folder, way);
}

}  // namespace

TEST_CASE("nothing that the last orchestrator sends after a destroy is written") {
  RedisServer server;
  destroy_keeps_out(server);
}

TEST_CASE("nothing that the last orchestrator sends after a destroy is written, in a cluster") {
  RedisCluster cluster;
  destroy_keeps_out(cluster);
}

TEST_CASE("an instance keeps its name and its board while Redis has no memory") {
  RedisServer server;
  TempFolder folder;
  REQUIRE(run_holt(folder.path(), {"init"}, way_to(server)).exit == 0);
  auto up = run_holt(folder.path(), {"up", "--name", "demo", "--ttl", "6s"}, way_to(server));
  REQUIRE_MESSAGE(up.exit == 0, up.said);
  auto lock = server.cli({"GET", "holt:demo:lock"});
  auto run = lock.substr(lock.find("run_id"), 50);
  server.cli({"CONFIG", "SET", "maxmemory", "1"});
  for (auto end = Clock::now() + 13s; Clock::now() < end; std::this_thread::sleep_for(20ms)) {
    CHECK(server.cli({"GET", "holt:demo:lock"}).contains(run));
    CHECK(server.cli({"EXISTS", "holt:demo:x:orchestrating"}) == "1");
  }
  server.cli({"CONFIG", "SET", "maxmemory", "0"});
  auto goal = run_holt(folder.path(), {"forage", "--goal", "a page", "--watch"}, way_to(server));
  CHECK_MESSAGE(goal.said.contains("Terminal artefact created"), goal.said);
  auto down = run_holt(folder.path(), {"down", "--name", "demo"}, way_to(server));
  CHECK_MESSAGE(down.exit == 0, down.said);
}

TEST_CASE("destroy goes over a large and slow server for as long as that takes") {
  RedisServer server;
  server.cli({"DEBUG", "POPULATE", "12000"});
  for (auto key : {"1", "2", "3"})
    server.cli({"SET", "holt:demo:artefact:" + std::string(key), "x"});
  InstanceEntry entry{.run_id = "1", .workspace_path = "/nowhere", .started_at = WallClock::now()};
  server.cli({"HSET", "holt:instances", "demo", to_json(entry)});
  FaultyLink link(server.port());
  link.delay(Direction::to_client, 1s);  // each of some twelve pages
  TempFolder folder;
  auto destroy = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"destroy", "--name", "demo"};
    words.insert(words.end(), more.begin(), more.end());
    auto began = Clock::now();
    auto done = run_holt(folder.path(), std::move(words),
                         {fmt::format("REDIS_URL=redis://127.0.0.1:{}", link.port()),
                          "REDIS_COMMAND_TIMEOUT=5s", "REDIS_CONNECT_TIMEOUT=5s"},
                         120s);
    CHECK_MESSAGE(done.exit == 0, done.said);
    CHECK(Clock::now() - began > 11s);  // so that this test is about what it says
    return done.said;
  };
  auto would = destroy({"--dry-run"});
  CHECK_MESSAGE(would.contains("Would destroy instance demo: 3 keys"), would);
  CHECK(server.cli({"EXISTS", "holt:demo:artefact:1", "holt:demo:artefact:3"}) == "2");
  auto did = destroy({"--yes-name", "demo"});
  CHECK_MESSAGE(did.contains("Destroyed instance demo: 3 keys (3 artefacts, 0 claims)"), did);
  CHECK(server.cli({"KEYS", "holt:demo:artefact:*"}).empty());
  CHECK(server.cli({"HEXISTS", "holt:instances", "demo"}) == "0");
  CHECK(server.cli({"EXISTS", "key:0", "key:11999"}) == "2");  // what is not its own stays
}

TEST_CASE("forage says that a goal may exist when the answer was lost, and how to find it") {
  RedisServer server;
  fill(server);
  TempFolder folder, elsewhere;
  REQUIRE(run_holt(folder.path(), {"init"}, way_to(server)).exit == 0);
  auto up = run_holt(folder.path(), {"up", "--name", "demo"}, way_to(server));
  REQUIRE_MESSAGE(up.exit == 0, up.said);
  FaultyLink link(server.port());
  link.delay(Direction::to_client, 2s);  // time to cut it between a goal and its answer
  Program forage{
      {"env", "-C", elsewhere.path(), fs::path(WARREN_BINARY).parent_path() / "holt", "forage",
       "--name", "demo", "--goal", "a page"},
      elsewhere.path() / "log",
      {"HOME=" + elsewhere.path().string(), "REDIS_CONNECT_TIMEOUT=10s",
       fmt::format("REDIS_URL=redis://127.0.0.1:{}", link.port()), "REDIS_COMMAND_TIMEOUT=15s"}};
  Process asking(forage);
  auto goals = [&] { return server.cli_words({"ZRANGE", "holt:demo:x:artefacts", "0", "-1"}); };
  wait_for(60s, "the goal is there", [&] { return !goals().empty(); });
  auto goal = goals()[0];
  link.cut();
  (void)server.try_cli({"SHUTDOWN", "SAVE"});
  wait_for(30s, "the server has ended", [&] { return !server.alive(); });
  LoadingServer loading(server);
  link.heal();
  CHECK(asking.wait(60s) == 1);
  CHECK(loading.refusals() > 50);  // it was asked again and again
  auto said = asking.log_text();
  CAPTURE(said);
  CHECK(said.contains("goal " + goal + " may exist"));
  CHECK(said.contains("holt hoard --name demo " + goal));
  CHECK(!said.contains("error:"));
  CHECK(!said.contains("Created goal"));
  loading.finish();
  auto found = run_holt(folder.path(), {"hoard", "--name", "demo", goal}, way_to(server));
  CHECK_MESSAGE(found.exit == 0, found.said);
  CHECK_MESSAGE(found.said.contains("a page"), found.said);
  (void)run_holt(folder.path(), {"down", "--name", "demo"}, way_to(server));
}

TEST_CASE("up warns once of a Redis that drops keys when it is full, and says what to do") {
  RedisServer server;
  TempFolder folder;
  const std::string warning = "drops keys when it is full";
  auto up_and_down = [&] {
    auto up = run_holt(folder.path(), {"up", "--name", "demo"}, way_to(server));
    REQUIRE_MESSAGE(up.exit == 0, up.said);
    auto down = run_holt(folder.path(), {"down", "--name", "demo"}, way_to(server));
    REQUIRE_MESSAGE(down.exit == 0, down.said);
    return up.said;
  };
  server.cli({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  CHECK(!up_and_down().contains(warning));  // it is never full
  server.cli({"CONFIG", "SET", "maxmemory", "1gb"});
  auto said = up_and_down();
  CAPTURE(said);
  auto at = said.find(warning);
  REQUIRE(at != said.npos);
  CHECK(said.find(warning, at + 1) == said.npos);
  CHECK(said.contains(server.address()));
  CHECK(said.contains("allkeys-lru"));
  CHECK(said.contains("redis-cli CONFIG SET maxmemory-policy noeviction"));
  server.cli({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  CHECK(!up_and_down().contains(warning));
}
