// Boards, and the commands about them, as a Holt user meets them on the second day.
#include "base/uuid.h"
#include "services/board/orchestrator/control.h"
#include "services/instance/entry.h"
#include "with_board.h"
#include "with_holt.h"

using namespace warren;
using namespace warren::board;
namespace fs = std::filesystem;

namespace {

// Works when the file `go` is there.
constexpr auto patient_crew = R"(version: "1.0"
orchestrator: {bid_timeout: 300ms}
agents:
  Writer:
    command: [sh, -c, "echo $$ >> began; while ! test -e go; do sleep 0.02; done; cat answer"]
    bidding_strategy: exclusive
    bids_on: {types: [GoalDefined]}
    timeout: 10m
)";
constexpr auto terminal = R"({"artefact_type":"Page","structural_type":"Terminal","summary":"s"})";
constexpr auto draft = R"({"artefact_type":"Draft","summary":"s"})";

fs::path project(const Holt& holt, const std::string& name, const std::string& answer = terminal) {
  auto folder = holt.folder(name);
  write_file(folder / "holt.yml", patient_crew);
  write_file(folder / "answer", answer);
  return folder;
}

// A command says this, sooner or later.
void eventually_says(const Holt& holt, const fs::path& folder,
                     const std::vector<std::string>& words, const std::string& text) {
  wait_for(30s, fmt::format("{}: {}", fmt::join(words, " "), text), [&]() -> Result<> {
    auto done = holt.run(folder, words);
    if (done.said.contains(text)) return ok;
    return fail(Errc::not_found, "{}", done.said);
  });
}

// As the Go program writes them, and nothing else: no index, no thread.
std::string go_artefact(RedisServer& server, const std::string& type) {
  auto id = uuid4();
  server.cli({"HSET",
              "holt:gone:artefact:" + id,
              "id",
              id,
              "logical_id",
              uuid4(),
              "version",
              "1",
              "structural_type",
              "Standard",
              "type",
              type,
              "payload",
              "made by Go",
              "source_artefacts",
              "null",
              "produced_by_role",
              "user",
              "created_at_ms",
              "1767225600000"});
  return id;
}

std::string go_claim(RedisServer& server, const std::string& artefact) {
  auto id = uuid4();
  server.cli({"HSET",
              "holt:gone:claim:" + id,
              "id",
              id,
              "artefact_id",
              artefact,
              "status",
              "pending_review",
              "granted_review_agents",
              "null",
              "granted_parallel_agents",
              "null",
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
              ""});
  server.cli({"SET", "holt:gone:claim_by_artefact:" + artefact, id});
  return id;
}

}  // namespace

TEST_CASE(
    "a goal given while the agents are away is shown as untaken, and taken up when they come") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here");
  write_file(here / "go", "");
  holt.must(here, {"up", "--name", "demo", "--no-agents"});
  auto watch = holt.start(here, {"watch"});
  wait_for(20s, "it watches", [&] {
    return server.cli_words({"PUBSUB", "NUMSUB", "holt:demo:workflow_events"}).at(1) == "2";
  });
  auto goal = word_after(holt.must(here, {"forage", "--goal", "a page"}), "Created goal: ");
  eventually_says(holt, here, {"list"}, "1 artefact (1 untaken)");
  CHECK(holt.must(here, {"list", "--json"}).contains("\"untaken_claims\":1"));
  CHECK(holt.must(here, {"list"}).contains("0 of 1 agents"));
  auto status = holt.must(here, {"status"});
  CHECK_MESSAGE(status.contains("1 of them nobody has taken"), status);
  CHECK_MESSAGE(status.contains("agents     0 of 1\n"), status);
  auto why = holt.must(here, {"explain", goal});
  CHECK_MESSAGE(why.contains("nobody has taken it since"), why);
  CHECK_MESSAGE(why.contains("waits for the bids of: Writer"), why);
  auto watched = holt.must_not(here, {"forage", "--goal", "another", "--watch"});
  CHECK_MESSAGE(watched.contains("nobody took claim"), watched);

  auto agent = holt.start(here, {"agent", "run", "Writer"});
  eventually_says(holt, here, {"hoard", "--type", "Page"}, "2 artefacts found");
  CHECK(holt.must(here, {"list"}).contains("1 agent "));
  CHECK(!holt.must(here, {"list"}).contains("untaken"));
  status = holt.must(here, {"status"});
  CHECK_MESSAGE(status.contains("agents     1\n"), status);
  CHECK(holt.must(here, {"status", "--json"}).contains("\"agents\":1,\"roles\":1"));
  agent->kill();
  eventually_says(holt, here, {"list"}, "0 of 1 agents");
  CHECK(holt.must(here, {"status"}).contains("agents     0 of 1\n"));
  watch->terminate();
  watch->wait();
  auto seen = watch->log_text();
  CHECK_MESSAGE(seen.contains("💤 Nobody took it: claim="), seen);
  CHECK_MESSAGE(!seen.contains("Unknown event"), seen);
  holt.must(here, {"down"});
}

TEST_CASE("the board of an instance that crashed is listed and read, and `up --resume` goes on") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here");
  CHECK(holt.must_not(here, {"up", "--resume"}).contains("no board was left in this folder"));
  CHECK(holt.must(here, {"up"}).contains("Started instance: default-1"));
  auto goal = word_after(holt.must(here, {"forage", "--goal", "a page"}), "Created goal: ");
  wait_for(20s, "the tool runs", [&] { return fs::exists(here / "began"); });
  holt.crash("default-1");
  auto began = Clock::now();
  CHECK(holt.must(here, {"down"}).contains("Stopped instance: default-1 (its process was gone)"));
  CHECK(Clock::now() - began < 20s);  // not the ttl of its lock

  auto up = holt.must(here, {"up"});
  CHECK(up.contains("Started instance: default-2"));
  CHECK_MESSAGE(up.contains("A board with open work was left here: default-1 (1 artefact, 1 open)"),
                up);
  CHECK_MESSAGE(up.contains("`holt down --name default-2`, then `holt up --resume`"), up);
  auto boards = holt.must(holt.folder("elsewhere"), {"boards"});
  CHECK_MESSAGE(boards.contains("default-1    stopped   1 artefact, 1 open"), boards);
  CHECK_MESSAGE(boards.contains("default-2    running   0 artefacts, 0 open"), boards);
  CHECK_MESSAGE(boards.contains(here.string()), boards);
  CHECK(holt.must(here, {"hoard", "--name", "default-1"}).contains("a page"));
  holt.must(here, {"down"});
  auto which = holt.must_not(here, {"hoard"});
  CHECK_MESSAGE(which.contains("several boards were left of"), which);
  CHECK_MESSAGE(which.contains("(default-1, default-2)"), which);

  write_file(here / "go", "");
  CHECK(holt.must(here, {"up", "--resume"}).contains("Started instance: default-1"));
  eventually_says(holt, here, {"hoard"}, "2 artefacts found");
  CHECK(holt.must(here, {"explain", goal}).contains("ended: "));
  holt.must(here, {"down"});
  // What is stopped is read by itself where it is the only one.
  holt.must(here, {"destroy", "--name", "default-2", "--yes-name", "default-2"});
  CHECK(!holt.must(here, {"boards"}).contains("default-2"));
  CHECK(holt.must(here, {"hoard"}).contains("2 artefacts found"));
  CHECK(holt.must(here, {"explain", goal}).contains("ended: "));
  CHECK(holt.must(here, {"watch", "--since", "1h", "--until", "0s"}).contains("is stopped"));
}

TEST_CASE("up with a new name reports a board that was left in the folder, and never its own") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here");
  CHECK(!holt.must(here, {"up", "--name", "first"}).contains("left here"));
  holt.must(here, {"forage", "--goal", "a page"});
  wait_for(20s, "the tool runs", [&] { return fs::exists(here / "began"); });
  holt.must(here, {"down"});
  auto up = holt.must(here, {"up", "--name", "second"});
  CHECK_MESSAGE(up.contains("A board with open work was left here: first (1 artefact, 1 open)"),
                up);
  CHECK_MESSAGE(up.contains("`holt down --name second`, then `holt up --name first`"), up);
  CHECK(!holt.must(holt.folder("other"), {"up", "--name", "other"}).contains("left here"));
  holt.must(here, {"down"});
  up = holt.must(here, {"up", "--name", "first"});
  CHECK_MESSAGE(!up.contains("left here"), up);
  holt.must(here, {"down"});
}

TEST_CASE(
    "up takes over at once what a process that is dead for certain had, and goes on with it") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here");
  holt.must(here, {"up", "--name", "demo", "--ttl", "10m"});
  auto goal = word_after(holt.must(here, {"forage", "--goal", "a page"}), "Created goal: ");
  wait_for(20s, "the tool runs", [&] { return fs::exists(here / "began"); });
  CHECK(holt.must_not(here, {"up", "--name", "demo"}).contains("'demo' is already in use"));
  CHECK(holt.must_not(here, {"up"}).contains("is already in use by instance 'demo'"));
  holt.crash("demo");
  CHECK(holt.must(here, {"list"}).contains("process gone"));
  auto began = Clock::now();
  CHECK(holt.must(here, {"up", "--name", "demo"}).contains("Started instance: demo"));
  CHECK(Clock::now() - began < 2min);  // not the ttl of its lock
  CHECK(!holt.must(here, {"list"}).contains("process gone"));
  write_file(here / "go", "");
  eventually_says(holt, here, {"hoard"}, "2 artefacts found");
  CHECK(holt.must(here, {"explain", goal}).contains("ended: "));

  // Its folder is free as well, and its board is known to be left.
  fs::remove(here / "go");
  fs::remove(here / "began");
  holt.must(here, {"forage", "--goal", "another"});
  wait_for(20s, "the tool runs", [&] { return fs::exists(here / "began"); });
  holt.crash("demo");
  CHECK(holt.must(here, {"up", "--resume"}).contains("Started instance: demo"));
  holt.crash("demo");
  auto up = holt.must(here, {"up"});
  CHECK_MESSAGE(up.contains("Started instance: default-1"), up);
  CHECK_MESSAGE(up.contains("A board with open work was left here: demo (3 artefacts, 1 open)"),
                up);
  holt.must(here, {"down"});
}

TEST_CASE("with nothing configured, boards of instances that are stopped are listed and read") {
  auto usual = control({6379}, {"PING"}, 5s);
  if (usual || usual.error().code != Errc::unavailable) {
    MESSAGE("a Redis listens on port 6379: that is what would be used");
    return;
  }
  Holt holt;
  auto here = project(holt, "here");
  CHECK(holt.must(here, {"boards"}).contains("No Holt boards"));
  CHECK(holt.must_not(here, {"hoard"}).contains("the private Redis is not running"));
  CHECK(holt.must(here, {"up"}).contains("Started instance: default-1"));
  auto goal = word_after(holt.must(here, {"forage", "--goal", "a page"}), "Created goal: ");
  wait_for(20s, "the tool runs", [&] { return fs::exists(here / "began"); });
  CHECK(fs::exists(holt.private_redis()));
  CHECK(holt.must(here, {"down"}).contains("Stopped instance: default-1"));
  CHECK(!fs::exists(holt.private_redis()));

  // It runs for as long as each of these takes.
  auto says = [&](std::vector<std::string> words, const std::string& text) {
    auto said = holt.must(here, std::move(words));
    CHECK_MESSAGE(said.contains(text), said);
    CHECK(!fs::exists(holt.private_redis()));
  };
  says({"boards"}, "default-1    stopped   1 artefact, 1 open");
  says({"boards", "--json"}, "\"state\":\"stopped\"");
  says({"hoard"}, "1 artefact found");
  says({"explain", goal}, "waits for: Writer");
  says({"status"}, "state      stopped");
  says({"watch", "--since", "1h", "--until", "0s"}, "type=GoalDefined, id=" + goal);
  says({"list"}, "No active Holt instances");
  CHECK(holt.must_not(here, {"forage", "--goal", "another"}).contains("no instance of"));
  CHECK(!fs::exists(holt.private_redis()));

  write_file(here / "go", "");
  CHECK(holt.must(here, {"up", "--resume"}).contains("Started instance: default-1"));
  eventually_says(holt, here, {"hoard"}, "2 artefacts found");
  CHECK(holt.must(here, {"down"}).contains("Stopped instance: default-1"));
  says({"boards"}, "default-1    stopped   2 artefacts, 0 open");
}

TEST_CASE(
    "up says started when every replica has the lock, and --unreplicated does not wait for them") {
  SentinelTrio trio;
  Holt holt(trio);
  auto here = holt.folder("here");
  CHECK(holt.must(here, {"up", "--name", "demo"}).contains("Started instance: demo"));
  for (auto* replica : trio.replicas()) CHECK(replica->cli({"EXISTS", "holt:demo:lock"}) == "1");
  CHECK(holt.must(here, {"status"}).contains("running"));
  CHECK(holt.must(here, {"down"}).contains("Stopped instance: demo"));

  auto* away = trio.replicas().front();
  away->pause();
  auto refused = holt.must_not(here, {"up", "--name", "other", "--timeout", "5s"});
  CHECK_MESSAGE(refused.contains("not all replicas have it"), refused);
  CHECK_MESSAGE(refused.contains("with --unreplicated nobody waits"), refused);
  CHECK(holt.must(here, {"list"}).contains("No active Holt instances"));
  auto up = holt.must(here, {"up", "--name", "another", "--unreplicated"});
  CHECK_MESSAGE(up.contains("Started instance: another"), up);
  CHECK(holt.must(here, {"list"}).contains("running"));
  CHECK(holt.must(here, {"down"}).contains("Stopped instance: another"));
  away->resume();
}

TEST_CASE("a stand-by takes over when the primary of Redis dies together with the instance") {
  SentinelTrio trio;
  Holt holt(trio);
  auto here = holt.folder("here");
  holt.must(here, {"up", "--name", "demo", "--ttl", "3s"});
  auto standby = holt.start(
      here, {"orchestrate", "--standby", "--name", "demo", "--ttl", "3s", "--log-level", "info"});
  auto says = [&](const std::string& text) { return standby->log_text().contains(text); };
  wait_for(20s, "it stands by", [&] { return says("instance.stands_by"); });
  auto& primary = trio.primary();
  holt.crash("demo");
  primary.kill();
  // The sentinels go on listing the dead server as a replica of the new primary.
  wait_for(90s, "it takes over", [&] { return says("instance.started"); });
  for (auto* replica : trio.replicas())
    if (replica->is_running()) CHECK(replica->cli({"EXISTS", "holt:demo:lock"}) == "1");
  CHECK(holt.must(here, {"status"}).contains("running"));
  CHECK(holt.must(here, {"down"}).contains("Stopped instance: demo"));
  CHECK(standby->wait(20s) == 0);
}

TEST_CASE(
    "a stand-by says why it waits while a replica lacks the lock, and then goes on by itself") {
  SentinelTrio trio;
  Holt holt(trio);
  auto here = holt.folder("here");
  auto* away = trio.replicas().front();
  away->pause();
  auto standby =
      holt.start(here, {"orchestrate", "--standby", "--name", "demo", "--log-level", "info"});
  auto says = [&](const std::string& text) { return standby->log_text().contains(text); };
  wait_for(60s, "it says so", [&] { return says("instance.standby_waits name=demo why="); });
  wait_for(10s, "for people, too", [&] {
    return says("The name 'demo' cannot be taken yet: ") && says("with --unreplicated nobody");
  });
  CHECK(!says("instance.started"));
  away->resume();
  wait_for(60s, "it goes on", [&] { return says("instance.started"); });
  standby->terminate();
  CHECK(standby->wait(20s) == 0);
}

TEST_CASE(
    "a board that an older Warren left is in the list, and so is one that the Go program wrote") {
  RedisServer server;
  Holt holt(server);
  auto here = holt.folder("here");
  // Older ones wrote no list of boards: the next start found the entry stale, and removed it.
  InstanceEntry entry{.run_id = uuid4(), .workspace_path = here, .started_at = WallClock::now()};
  server.cli({"HSET", "holt:instances", "old", to_json(entry)});
  holt.must(holt.folder("other"), {"up", "--name", "other"});
  CHECK(server.cli({"HEXISTS", "holt:instances", "old"}) == "0");
  CHECK(holt.must(here, {"boards"}).contains("old "));
  for (int i = 0; i < 2; ++i) go_artefact(server, "GoalDefined");
  auto boards = holt.must(here, {"boards"});
  CHECK_MESSAGE(boards.contains("gone         stopped   2 artefacts, 2 open"), boards);
  holt.must(here, {"down", "--name", "other"});
}

TEST_CASE("a board is read completely while the Go program runs it, and an agent joins it") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here");
  auto first = go_artefact(server, "GoalDefined");
  auto hoard = holt.must(here, {"hoard", "--name", "gone"});
  CHECK_MESSAGE(hoard.contains("1 artefact found"), hoard);
  for (int i = 0; i < 4; ++i) go_artefact(server, "Note");
  hoard = holt.must(here, {"hoard", "--name", "gone"});
  CHECK_MESSAGE(hoard.contains("5 artefacts found"), hoard);
  auto claim = go_claim(server, first);
  CHECK(holt.must(here, {"explain", first, "--name", "gone"}).contains("status: pending_review"));
  CHECK(holt.must_not(here, {"agent", "run", "Writer", "--name", "gone"}).contains("does not run"));

  // Its orchestrator listens; a claim of before is bid on all the same.
  auto go = [](Board& board, RedisServer& redis, Holt& program, fs::path& folder,
               std::string& id) -> awaitable<void> {
    redis::Subscriber orchestrator(board.client());
    orchestrator.subscribe("holt:gone:artefact_events");
    auto settled = co_await orchestrator.settled(Clock::now() + 10s);
    REQUIRE(settled);
    auto agent = program.start(folder, {"agent", "run", "Writer", "--name", "gone"});
    auto has_bid = [&redis, &id] {
      return redis.cli({"HGET", "holt:gone:claim:" + id + ":bids", "Writer"}) == "exclusive";
    };
    co_await eventually(30s, "the agent has bid", has_bid);
    auto status = program.must(folder, {"status", "--name", "gone"});
    CHECK_MESSAGE(status.contains("run by another program"), status);
    auto boards = program.must(folder, {"boards"});
    CHECK_MESSAGE(boards.contains("gone         elsewhere 5 artefacts"), boards);
    boards = program.must(folder, {"boards", "--json"});
    CHECK_MESSAGE(boards.contains(R"("name":"gone","state":"elsewhere")"), boards);
    agent->terminate();
    agent->wait();
    co_await orchestrator.close();
  };
  with_board(settings_for(server), go, server, holt, here, claim);
}

TEST_CASE("an open watch is not taken for an orchestrator") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here");
  go_artefact(server, "GoalDefined");
  auto watch = holt.start(here, {"watch", "--name", "gone"});
  wait_for(20s, "it watches", [&] {
    return server.cli_words({"PUBSUB", "NUMSUB", "holt:gone:workflow_events"}).at(1) == "1";
  });
  auto boards = holt.must(here, {"boards"});
  CHECK_MESSAGE(boards.contains("gone         stopped"), boards);
  CHECK(holt.must(here, {"status", "--name", "gone"}).contains("down"));
  CHECK(holt.must_not(here, {"agent", "run", "Writer", "--name", "gone"}).contains("does not run"));
  auto refused = holt.must_not(here, {"forage", "--goal", "x", "--name", "gone", "--watch"});
  CHECK_MESSAGE(refused.contains("'gone' is not running"), refused);
  watch->terminate();
  CHECK(watch->wait(20s) == 0);
}

TEST_CASE(
    "forage --watch goes on while a program of the documents works, and ends when that dies") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here");
  go_artefact(server, "GoalDefined");
  // The Go program writes neither a lock nor an entry; another may write both.
  server.cli({"SET", "holt:seed:lock", "2025-10-05T12:34:56Z"});
  server.cli({"HSET", "holt:instances", "seed",
              fmt::format(R"({{"run_id":"{}","workspace_path":"/seed","started_at":)"
                          R"("2025-10-05T12:34:56Z","orchestrator_pid":1}})",
                          uuid4())});
  // One of ours, and without a crew file: it has the lock, and orchestrates nothing.
  holt.must(holt.folder("idle"), {"up", "--name", "idle"});
  Process orchestrators({{"redis-cli", "-p", std::to_string(server.port()), "SUBSCRIBE",
                          "holt:gone:artefact_events", "holt:seed:artefact_events"},
                         here / "heard"});
  wait_for(20s, "they listen", [&] {
    return server.cli_words({"PUBSUB", "NUMSUB", "holt:seed:artefact_events"}).at(1) == "1";
  });
  auto forage = [&](const std::string& name) {
    return holt.start(here, {"forage", "--goal", "a page", "--watch", "--name", name});
  };
  auto gone = forage("gone"), seed = forage("seed"), idle = forage("idle");
  // Each looks once a second; a board without anybody is given up after twenty looks at most.
  auto looks = [&] {
    auto stats = server.cli({"INFO", "commandstats"});
    auto at = stats.find("cmdstat_pubsub|numsub:calls=");
    return at == stats.npos ? 0 : std::stoi(stats.substr(at + 28));
  };
  wait_for(120s, "all have looked often", [&] { return looks() > 3 * 22; });
  CHECK(idle->wait(60s) == 1);
  CHECK_MESSAGE(idle->log_text().contains("nobody orchestrates the board of idle"),
                idle->log_text());
  CHECK(gone->alive());
  CHECK(seed->alive());
  orchestrators.kill();
  server.cli({"DEL", "holt:seed:lock"});
  for (auto* each : {gone.get(), seed.get()}) CHECK(each->wait(60s) == 1);
  CHECK_MESSAGE(gone->log_text().contains("instance gone runs no more"), gone->log_text());
  CHECK_MESSAGE(seed->log_text().contains("instance seed runs no more"), seed->log_text());
}

TEST_CASE(
    "an instance that a program of the documents started is running, and not starting for ever") {
  RedisServer server;
  Holt holt(server);
  auto here = holt.folder("here");
  server.cli({"SET", "holt:seed:lock", "2025-10-05T12:34:56Z", "EX", "60"});
  server.cli({"HSET", "holt:instances", "seed",
              fmt::format(R"({{"run_id":"{}","workspace_path":"{}","started_at":)"
                          R"("2025-10-05T12:34:56Z","orchestrator_pid":1}})",
                          uuid4(), here.string())});
  auto listed = holt.must(here, {"list"});
  CHECK_MESSAGE(listed.contains("running"), listed);
  CHECK_MESSAGE(!listed.contains("starting"), listed);
}

TEST_CASE("a grant tells what Go tells: that a tool is a process") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here");
  write_file(here / "go", "");
  holt.must(here, {"up", "--name", "demo"});
  auto watch = holt.start(here, {"watch", "--output", "jsonl"});
  wait_for(20s, "it watches", [&] {
    return server.cli_words({"PUBSUB", "NUMSUB", "holt:demo:workflow_events"}).at(1) == "2";
  });
  holt.must(here, {"forage", "--goal", "a page", "--watch"});
  wait_for(20s, "the grant is told",
           [&] { return watch->log_text().contains(R"("agent_image_id":"process")"); });
  holt.must(here, {"down"});
}

TEST_CASE("forage --watch ends when nothing is left to do, and says so") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here", draft);
  write_file(here / "go", "");
  holt.must(here, {"up", "--name", "demo"});
  auto done = holt.run(here, {"forage", "--goal", "a page", "--watch"});
  CHECK(done.exit == 0);
  CHECK_MESSAGE(done.said.contains("nothing is left to do"), done.said);
  CHECK_MESSAGE(done.said.contains("1 artefact came of it"), done.said);
  holt.must(here, {"down"});
}

TEST_CASE("forage --watch ends when the instance has died, and says how to go on") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here");
  holt.must(here, {"up", "--name", "demo", "--ttl", "2s"});
  auto forage = holt.start(here, {"forage", "--goal", "a page", "--watch"});
  wait_for(20s, "the tool runs", [&] { return fs::exists(here / "began"); });
  holt.crash("demo");
  CHECK(forage->wait(40s) == 1);
  CHECK_MESSAGE(forage->log_text().contains("instance demo runs no more"), forage->log_text());
  CHECK_MESSAGE(forage->log_text().contains("holt up --name demo"), forage->log_text());
}

TEST_CASE("a crashed instance is destroyed without waiting, and forage warns that nobody works") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here");
  holt.must(here, {"up", "--name", "demo", "--ttl", "10m"});
  CHECK(!holt.must(here, {"forage", "--goal", "a page"}).contains("is gone"));
  wait_for(20s, "the tool runs", [&] { return fs::exists(here / "began"); });
  auto refused = holt.must_not(here, {"destroy", "--yes-name", "demo"});
  CHECK_MESSAGE(refused.contains("instance 'demo' is running"), refused);
  holt.crash("demo");
  auto forage = holt.must(here, {"forage", "--goal", "another"});
  CHECK_MESSAGE(forage.contains("the process of demo is gone"), forage);
  CHECK_MESSAGE(forage.contains("`holt up --name demo`"), forage);
  CHECK(holt.must(here, {"destroy", "--dry-run"}).contains("Would destroy instance demo: "));
  CHECK(server.cli({"EXISTS", "holt:demo:lock"}) == "1");
  CHECK(holt.must(here, {"destroy", "--yes-name", "demo"}).contains("Destroyed instance demo: "));
  CHECK(holt.must(here, {"boards"}).contains("No Holt boards"));
}

TEST_CASE("up refuses a folder that was deleted") {
  RedisServer server;
  Holt holt(server);
  for (std::string command : {"up", "orchestrate"}) {
    auto done = holt.shell(holt.folder("gone"), "rmdir \"$PWD\"; exec \"$0\" " + command);
    CHECK(done.exit == 1);
    CHECK_MESSAGE(done.said.contains("the folder that you are in was deleted"), done.said);
  }
  CHECK(server.cli({"EXISTS", "holt:boards"}) == "0");
}

TEST_CASE(
    "cancel ends the tool and frees its role, and the reason that was given is the one kept") {
  RedisServer server;
  Holt holt(server);
  auto here = project(holt, "here");
  holt.must(here, {"up", "--name", "demo"});
  for (int i = 1; i <= 6; ++i) {
    auto forage = holt.start(here, {"forage", "--goal", "a page", "--watch"});
    auto began = [&] {
      auto text = text_of_file(here / "began");
      return std::ranges::count(text, '\n') == i;
    };
    wait_for(30s, "the tool runs", began);  // the role was free again
    wait_for(20s, "the goal is told",
             [&] { return forage->log_text().contains("Created goal: "); });
    auto pid = std::stoi(
        text_of_file(here / "began")
            .substr(
                text_of_file(here / "began").rfind('\n', text_of_file(here / "began").size() - 2) +
                1));
    auto goal = word_after(forage->log_text(), "Created goal: ");
    holt.must(here, {"cancel", goal, "--reason", "the customer has gone"});
    wait_for(20s, "the tool is gone", [pid] { return ::kill(pid, 0) != 0; });
    auto why = holt.must(here, {"explain", goal});
    CHECK_MESSAGE(why.contains("ended: the customer has gone"), why);
    CHECK(forage->wait(20s) != 0);
    CHECK_MESSAGE(forage->log_text().contains("the customer has gone"), forage->log_text());
  }
  holt.must(here, {"down"});
}

TEST_CASE("a workflow that failed says why, where it is watched and on its board") {
  RedisServer server;
  Holt holt(server);
  auto here = holt.folder("here");
  write_file(here / "holt.yml", R"(version: "1.0"
agents:
  Writer:
    command: [sh, -c, "echo no ink >&2; exit 3"]
    bidding_strategy: exclusive
)");
  holt.must(here, {"up", "--name", "demo"});
  auto watched = holt.must_not(here, {"forage", "--goal", "a page", "--watch"});
  CHECK_MESSAGE(watched.contains("ended with a failure: "), watched);
  CHECK_MESSAGE(watched.contains("code 3"), watched);
  auto hoard = holt.must(here, {"hoard", "--type", "ToolExecutionFailure"});
  CHECK_MESSAGE(hoard.contains("code 3"), hoard);
  holt.must(here, {"down"});
}

TEST_CASE("down stops nothing of another folder unless it is named") {
  RedisServer server;
  Holt holt(server);
  auto here = holt.folder("here"), elsewhere = holt.folder("elsewhere");
  holt.must(here, {"up", "--name", "demo"});
  auto refused = holt.must_not(elsewhere, {"down"});
  CHECK_MESSAGE(refused.contains("name one with --name (running: demo)"), refused);
  CHECK(holt.must(elsewhere, {"list"}).contains("demo"));
  CHECK(holt.must(holt.folder("here/below"), {"down"}).contains("Stopped instance: demo"));
}

TEST_CASE("a lock without an entry is shown, and can be taken down") {
  RedisServer server;
  Holt holt(server);
  auto here = holt.folder("here");
  holt.must(here, {"up", "--name", "demo"});
  server.cli({"HDEL", "holt:instances", "demo"});
  auto listed = holt.must(here, {"list"});
  CHECK_MESSAGE(listed.contains("unlisted"), listed);
  CHECK(holt.must(here, {"down", "--name", "demo"}).contains("Stopped instance: demo"));
  CHECK(server.cli({"EXISTS", "holt:demo:lock"}) == "0");

  // One that somebody set by hand, for ever; and one that may still be somebody's.
  server.cli({"SET", "holt:squat:lock", "mine"});
  CHECK(holt.must(here, {"list"}).contains("squat"));
  auto stopped = holt.must(here, {"down", "--name", "squat", "--timeout", "100ms"});
  CHECK_MESSAGE(stopped.contains("Stopped instance: squat"), stopped);
  CHECK(server.cli({"EXISTS", "holt:squat:lock"}) == "0");
  server.cli({"SET", "holt:busy:lock", "mine", "EX", "50"});
  auto kept = holt.must_not(here, {"down", "--name", "busy", "--timeout", "100ms"});
  CHECK_MESSAGE(kept.contains("it is free in"), kept);
  CHECK(server.cli({"EXISTS", "holt:busy:lock"}) == "1");
}

TEST_CASE("lint finds tools that are not there, and up warns of them") {
  RedisServer server;
  Holt holt(server);
  auto here = holt.folder("here");
  write_file(here / "holt.yml", R"(version: "1.0"
agents:
  Writer:
    command: [./agents/writer.sh]
    bidding_strategy: exclusive
  Reader:
    command: [no-such-program, x]
    bid_script: [./plain]
)");
  write_file(here / "plain", "");
  auto lint = holt.run(here, {"lint"});
  CHECK(lint.exit == 2);
  CHECK_MESSAGE(
      lint.said.contains("holt.yml: agents.Writer.command: there is no ./agents/writer.sh"),
      lint.said);
  CHECK_MESSAGE(lint.said.contains("agents.Reader.command: there is no no-such-program in PATH"),
                lint.said);
  CHECK_MESSAGE(lint.said.contains("agents.Reader.bid_script: ./plain is no program"), lint.said);
  auto up = holt.must(here, {"up", "--name", "demo"});
  CHECK_MESSAGE(up.contains("there is no ./agents/writer.sh"), up);
  holt.must(here, {"down"});
}

TEST_CASE("init on a full disk leaves what was there, and says why") {
  RedisServer server;
  Holt holt(server);
  auto here = holt.folder("here");
  holt.must(here, {"init"});
  write_file(here / "holt.yml", "mine");
  auto script =
      fmt::format("(trap '' XFSZ; ulimit -f 0; cd {} && exec {} init --force) 2>&1 | cat",
                  here.string(), (fs::path(WARREN_BINARY).parent_path() / "holt").string());
  Process full({{"bash", "-o", "pipefail", "-c", script}, here / "said"});
  CHECK(full.wait(20s) == 1);
  CHECK_MESSAGE(full.log_text().contains("holt.yml: File too large"), full.log_text());
  CHECK(text_of_file(here / "holt.yml") == "mine");
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(here)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  CHECK(names == std::vector<fs::path>{"agents", "holt.yml", "said"});
}
