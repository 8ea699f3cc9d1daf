// The commands about agents, and the examples, as a user meets them; the test is the orchestrator.
#include <fstream>

#include "base/config.h"
#include "proof/testkit/process.h"
#include "services/board/agent/agent.h"
#include "services/board/agent/contract.h"
#include "services/instance/registry.h"
#include "with_board.h"

using namespace warren;
using namespace warren::board;
namespace fs = std::filesystem;

namespace {

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Processes that are at work in the folder.
int processes_in(const fs::path& folder) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::error_code error;
    count += fs::read_symlink(entry.path() / "cwd", error) == folder && !error;
  }
  return count;
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

Program command(const fs::path& folder, std::vector<std::string> words, const std::string& url = "",
                const std::string& program = WARREN_BINARY) {
  Program made{{"env", "-C", folder, program}, folder / "log", {"HOME=" + folder.string()}};
  made.argv.insert(made.argv.end(), words.begin(), words.end());
  if (!url.empty()) made.environment.push_back("REDIS_URL=" + url);
  return made;
}

struct Outcome {
  int exit;
  std::string said;
};

Outcome run_command(const fs::path& folder, std::vector<std::string> words,
                    const std::string& program = WARREN_BINARY) {
  fs::remove(folder / "log");
  Process process(command(folder, std::move(words), "", program));
  auto exit = process.wait(30s);
  return {exit, contents(folder / "log")};
}

awaitable<Claim> claimed(Board& board, Artefact artefact) {
  auto created = value_of(co_await board.create_artefact(std::move(artefact)));
  auto made = value_of(co_await board.create_claim(claim_on(created)));
  co_return made.claim;
}

// What an orchestrator does, without its reasons.
awaitable<Artefact> granted(Board& board, Claim claim, std::string role, BidType type) {
  auto changed = claim;
  if (type == BidType::review) changed.granted_review_agents = {role};
  if (type == BidType::exclusive) changed.granted_exclusive_agent = role;
  changed.status =
      type == BidType::review ? ClaimStatus::pending_review : ClaimStatus::pending_exclusive;
  WriteTerms terms;
  terms.announcements = {Grant{role, claim.id, type}};
  value_of(co_await board.update_claim(claim, changed, std::move(terms)));
  auto id = agent::result_id(claim.id, role);
  auto fact = [](Board& asked, std::string& of) { return asked.artefact(of); };
  co_return co_await eventually(20s, "there is a result", fact, board, id);
}

awaitable<Claim> claim_of(Board& board, const Artefact& artefact) {
  auto made = value_of(co_await board.create_claim(claim_on(artefact)));
  co_return made.claim;
}

awaitable<Bids> all_bids(Board& board, Claim claim, std::size_t count) {
  auto fact = [](Board& asked, Claim& on, std::size_t& wanted) -> Async<Bids> {
    auto bids = value_of(co_await asked.bids(on.id));
    if (bids.size() < wanted) co_return fail(Errc::not_found, "{} bids", bids.size());
    co_return bids;
  };
  co_return co_await eventually(10s, "all have bid", fact, board, claim, count);
}

Crew crew_in(const fs::path& file) {
  auto reading = value_of(read_crew(file, process_environment()));
  REQUIRE_MESSAGE(reading.crew, (reading.errors.empty() ? "" : reading.errors[0]));
  return *reading.crew;
}

// Runs all agents of a crew beside the body.
template <class Body>
awaitable<void> with_crew(Board& board, Crew crew, fs::path workspace, Body body) {
  std::list<Agent> agents;
  TaskGroup tasks(co_await asio::this_coro::executor);
  for (const auto& role : crew.roles) {
    AgentTerms terms{role, workspace};
    tasks.start("agent", agents.emplace_back(board, std::move(terms)).run());
  }
  std::exception_ptr thrown;
  try {
    co_await body(board);
  } catch (...) {
    thrown = std::current_exception();
  }
  tasks.stop();
  co_await tasks.join();
  if (thrown) std::rethrow_exception(thrown);
}

// An instance that runs, so far as others can see.
template <class Body>
void with_instance(RedisServer& server, fs::path workspace, Body body) {
  auto run_body = [](redis::Client& client, Body& inner, fs::path& where,
                     RedisServer& redis) -> awaitable<void> {
    LeaseSession session(client);
    std::exception_ptr thrown;
    try {
      Registry registry(client, "warren");
      InstanceTerms terms{.name = "demo", .workspace = fs::canonical(where), .pid = getpid()};
      auto instance = co_await registry.join(session, terms);
      REQUIRE_MESSAGE(instance, instance.error().what);
      auto board = Board::open(client, "warren", "demo");
      REQUIRE(board);
      co_await inner(*board, redis, where);
    } catch (...) {
      thrown = std::current_exception();
    }
    co_await session.close();
    if (thrown) std::rethrow_exception(thrown);
  };
  with_client(settings_for(server), run_body, body, workspace, server);
}

constexpr auto slow_crew = R"(version: "1.0"
agents:
  Coder:
    command: [sh, -c, "echo run >> runs; while ! test -e go; do sleep 0.02; done; cat done"]
    bidding_strategy: exclusive
)";

}  // namespace

TEST_CASE("lint finds every mistake, and says when there is none") {
  TempFolder folder;
  auto missing = run_command(folder.path(), {"lint"});
  CHECK(missing.exit == 1);
  CHECK(missing.said == "error: there is no warren.yml\n");
  write(folder.path() / "warren.yml", "version: 1.0\nagents:\n  Coder:\n    comand: [x]\n");
  auto wrong = run_command(folder.path(), {"lint"});
  CHECK(wrong.exit == 2);
  CHECK(wrong.said ==
        "error: warren.yml:3: agents.Coder.command: is missing\n"
        "error: warren.yml:3: agents.Coder: needs a bidding_strategy or a bid_script\n"
        "error: warren.yml:4: agents.Coder.comand: unknown key, did you mean command?\n"
        "warren.yml has 3 mistakes\n");
  write(folder.path() / "other.yml", std::string(slow_crew) + "    replicas: 2\n");
  auto right = run_command(folder.path(), {"lint", "other.yml"});
  CHECK(right.exit == 0);
  CHECK(right.said ==
        "warning: other.yml:6: agents.Coder.replicas: has no effect\n"
        "other.yml: 1 role, no mistakes\n");
}

TEST_CASE("init writes a crew that is right, under the name of the program, and replaces nothing") {
  for (std::string name : {"warren", "holt", "sett"}) {
    TempFolder folder;
    auto program = fs::path(WARREN_BINARY).parent_path() / name;
    auto first = run_command(folder.path(), {"init"}, program);
    CHECK_MESSAGE(first.exit == 0, first.said);
    CHECK(fs::exists(folder.path() / (name + ".yml")));
    auto lint = run_command(folder.path(), {"lint"}, program);
    CHECK(lint.exit == 0);
    CHECK(lint.said == name + ".yml: 2 roles, no mistakes\n");
    write(folder.path() / "agents/writer.sh", "mine");
    auto again = run_command(folder.path(), {"init"}, program);
    CHECK(again.exit == 1);
    CHECK(again.said.contains(name + ".yml is here already; --force replaces it"));
    CHECK(contents(folder.path() / "agents/writer.sh") == "mine");
    again = run_command(folder.path(), {"init", "--force"}, program);
    CHECK(again.exit == 0);
    CHECK(contents(folder.path() / "agents/writer.sh") != "mine");
  }
}

TEST_CASE("what init writes takes a goal to a Terminal artefact") {
  RedisServer server;
  TempFolder folder;
  REQUIRE(run_command(folder.path(), {"init"}).exit == 0);
  with_board(
      settings_for(server),
      [](Board& board, TempFolder& where) -> awaitable<void> {
        auto body = [](Board& on) -> awaitable<void> {
          auto claim = co_await claimed(on, artefact_of("GoalDefined", "a \"page\"\n100%"));
          auto bids = co_await all_bids(on, claim, 2);
          CHECK(bids == Bids{{"Writer", BidType::exclusive}, {"Publisher", BidType::ignore}});
          auto draft = co_await granted(on, claim, "Writer", BidType::exclusive);
          CHECK(draft.payload == "About: a \"page\"\n100%");
          claim = co_await claim_of(on, draft);
          bids = co_await all_bids(on, claim, 2);
          CHECK(bids == Bids{{"Writer", BidType::ignore}, {"Publisher", BidType::exclusive}});
          auto page = co_await granted(on, claim, "Publisher", BidType::exclusive);
          CHECK(page.structural_type == StructuralType::terminal);
          CHECK(page.payload == draft.payload);
        };
        auto crew = crew_in(where.path() / "warren.yml");
        co_await with_crew(board, std::move(crew), where.path(), body);
      },
      folder);
}

TEST_CASE("the writers take a goal through a rejection to a Terminal artefact") {
  RedisServer server;
  with_board(settings_for(server), [](Board& board) -> awaitable<void> {
    auto body = [](Board& on) -> awaitable<void> {
      auto claim = co_await claimed(on, artefact_of("GoalDefined", "a page about \"rabbits\""));
      auto bids = co_await all_bids(on, claim, 3);
      CHECK(bids == Bids{{"Publisher", BidType::ignore},
                         {"Reviewer", BidType::ignore},
                         {"Writer", BidType::exclusive}});
      auto draft = co_await granted(on, claim, "Writer", BidType::exclusive);
      claim = co_await claim_of(on, draft);
      bids = co_await all_bids(on, claim, 3);
      CHECK(bids == Bids{{"Publisher", BidType::exclusive},
                         {"Reviewer", BidType::review},
                         {"Writer", BidType::ignore}});
      auto review = co_await granted(on, claim, "Reviewer", BidType::review);
      CHECK(review.structural_type == StructuralType::review);
      CHECK(review.payload == "a title is missing");

      auto open = value_of(co_await on.claim(claim.id));
      auto ended = open;
      ended.status = ClaimStatus::terminated;
      Claim feedback = claim_on(draft);
      feedback.status = ClaimStatus::pending_assignment;
      feedback.granted_exclusive_agent = "Writer";
      feedback.additional_context_ids = {review.id};
      feedback = value_of(co_await on.replace_claim(open, ended, feedback));
      auto id = agent::result_id(feedback.id, "Writer");
      auto fact = [](Board& asked, std::string& of) { return asked.artefact(of); };
      auto better = co_await eventually(20s, "the draft is better", fact, on, id);
      CHECK(better.version == 2);
      CHECK(better.payload == "# A page\n\nHere is a page about \"rabbits\".");

      claim = co_await claim_of(on, better);
      co_await all_bids(on, claim, 3);
      review = co_await granted(on, claim, "Reviewer", BidType::review);
      CHECK(review.payload == "{}");
      open = value_of(co_await on.claim(claim.id));
      auto page = co_await granted(on, open, "Publisher", BidType::exclusive);
      CHECK(page.structural_type == StructuralType::terminal);
      CHECK(page.payload == better.payload);
    };
    fs::path folder = fs::path(WARREN_EXAMPLES) / "hello";
    auto crew = crew_in(folder / "holt.yml");
    co_await with_crew(board, std::move(crew), folder, body);
  });
}

TEST_CASE("agent run refuses what it cannot do, and says why") {
  RedisServer server;
  TempFolder folder;
  write(folder.path() / "warren.yml", slow_crew);
  auto url = "redis://" + server.address();
  auto said = [&](std::vector<std::string> words, int exit) {
    fs::remove(folder.path() / "log");
    Process process(command(folder.path(), std::move(words), url));
    CHECK(process.wait(30s) == exit);
    return contents(folder.path() / "log");
  };
  CHECK(said({"agent", "run", "Codr"}, 2).contains("has no role Codr, did you mean Coder?"));
  CHECK(said({"agent", "run", "Coder"}, 1).contains("no instance of this folder runs"));
  CHECK(said({"agent", "run", "Coder", "--name", "x"}, 1).contains("instance 'x' does not run"));
  CHECK(said({"agent", "run", "Coder", "--file", "no.yml"}, 1).contains("there is no no.yml"));
}

TEST_CASE("an agent that is killed leaves no process, and the next one makes the one result") {
  RedisServer server;
  TempFolder folder;
  write(folder.path() / "warren.yml", slow_crew);
  write(folder.path() / "done", R"({"artefact_type":"Code","summary":"s"})");
  auto body = [](Board& board, RedisServer& redis, fs::path& where) -> awaitable<void> {
    auto url = "redis://" + redis.address();
    auto runs = [&where] { return std::ranges::count(contents(where / "runs"), '\n'); };
    Process first(command(where, {"agent", "run", "Coder"}, url));
    auto claim = co_await claimed(board, artefact_of("GoalDefined"));
    auto bids = co_await all_bids(board, claim, 1);
    auto changed = claim;
    changed.granted_exclusive_agent = "Coder";
    changed.status = ClaimStatus::pending_exclusive;
    WriteTerms terms;
    terms.announcements = {Grant{"Coder", claim.id, BidType::exclusive}};
    value_of(co_await board.update_claim(claim, changed, terms));
    co_await eventually(10s, "the tool runs", [&] { return runs() == 1; });
    first.kill();
    auto is_left_alone = [&where] { return processes_in(fs::canonical(where)) == 0; };
    co_await eventually(10s, "nothing of it is left", is_left_alone);

    Process second(command(where, {"agent", "run", "Coder"}, url));
    co_await eventually(10s, "the tool runs again", [&] { return runs() == 2; });
    second.terminate();
    auto ended = [&second] { return !second.alive(); };
    co_await eventually(10s, "it leaves when it is asked to", ended);
    CHECK(second.wait() == 0);
    auto id = agent::result_id(claim.id, "Coder");
    auto result = co_await board.artefact(id);
    CHECK(!result);

    Process third(command(where, {"agent", "run", "Coder"}, url));
    write(where / "go", "");
    auto fact = [](Board& asked, std::string& of) { return asked.artefact(of); };
    co_await eventually(10s, "there is a result", fact, board, id);
    CHECK(runs() == 3);
  };
  with_instance(server, folder.path(), body);
}

TEST_CASE("a tool finds no secret in the environment of the process that started it") {
  RedisServer server;
  TempFolder folder;
  write(folder.path() / "warren.yml", R"(version: "1.0"
agents:
  Coder:
    command: [sh, -c, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' > seen; env >> seen; cat done"]
    bidding_strategy: exclusive
)");
  write(folder.path() / "done", R"({"artefact_type":"Code","summary":"s"})");
  auto body = [](Board& board, RedisServer& redis, fs::path& where) -> awaitable<void> {
    auto program = command(where, {"agent", "run", "Coder"}, "redis://" + redis.address());
    // The default user of this server has any password.
    // Other tests have processes with other secrets.
    auto secret = fmt::format("secret-of-{}", getpid());
    program.environment.push_back("REDIS_PASSWORD=" + secret);
    program.environment.push_back("FOGHORN_TOKEN=" + secret);
    program.environment.emplace_back("MARK=not-a-secret");
    Process agent(program);
    auto claim = co_await claimed(board, artefact_of("GoalDefined"));
    auto bids = co_await all_bids(board, claim, 1);
    co_await granted(board, claim, "Coder", BidType::exclusive);
    auto seen = contents(where / "seen");
    CHECK(seen.contains("MARK=not-a-secret"));  // it could read it
    CHECK(!seen.contains(secret));
    agent.terminate();
    CHECK(agent.wait() == 0);
  };
  with_instance(server, folder.path(), body);
}
