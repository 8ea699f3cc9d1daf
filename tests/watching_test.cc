// A board as somebody sees it who watches: whatever happens to his connection, all of it, once.
#include <boost/json.hpp>
#include <fstream>
#include <map>

#include "proof/testkit/process.h"
#include "proof/testkit/servers/redis_cluster.h"
#include "services/board/watch/lines.h"
#include "services/board/watch/watcher.h"
#include "with_board.h"

using namespace warren;
using namespace warren::board;
using namespace warren::watch;

namespace {

// How often each was shown.
using Shown = std::map<std::string, int>;

struct Load {
  Board& board;
  int wanted;
  std::vector<std::string> made = {};
  bool is_done = false;
};

Async<> create_all(Load& load) {
  for (int i = 0; i < load.wanted; ++i) {
    auto artefact = value_of(co_await load.board.create_artefact(artefact_of("T")));
    load.made.push_back("artefact " + artefact.id);
    auto claim = value_of(co_await load.board.create_claim(claim_on(artefact)));
    load.made.push_back("claim " + claim.claim.id);
  }
  load.is_done = true;  // and one more, so that whoever watches looks at this
  auto last = value_of(co_await load.board.create_artefact(artefact_of("T")));
  load.made.push_back("artefact " + last.id);
  co_return ok;
}

Async<> watch_until_all(Board& board, WatchTerms terms, Load& load, Shown& shown, int& gaps,
                        std::size_t expected) {
  BoardFeed feed(board.client(), board.keys());
  Watcher watcher(
      board, feed, terms,
      [&](const Happening& happening) {
        ++shown[key_of(happening)];
        return !load.is_done || shown.size() < expected;
      },
      [&](const std::string& notice) { gaps += notice.contains("connection"); });
  auto settled = co_await watcher.settle();
  auto watched = Result<>(ok);
  if (settled) watched = co_await with_deadline(Clock::now() + 50s, watcher.run());
  co_await feed.close();
  CHECK(settled);
  co_return watched;
}

void check_once(const Shown& shown, const std::vector<std::string>& made) {
  std::size_t missing = 0, repeated = 0;
  for (const auto& key : made) missing += !shown.contains(key);
  for (const auto& [key, count] : shown) repeated += count != 1;
  CHECK(missing == 0);
  CHECK(repeated == 0);
  CHECK(shown.size() == made.size());
}

}  // namespace

TEST_CASE("from history to live, under load, everything is shown once") {
  RedisServer server;
  auto body = [](Board& board) -> awaitable<void> {
    Load before{board, 1200};
    value_of(co_await create_all(before));
    Load during{board, 1500};
    during.made = before.made;
    TaskGroup group(co_await asio::this_coro::executor);
    group.start("test.load", create_all(during));
    Shown shown;
    int gaps = 0;
    WatchTerms terms;
    terms.with_history = true;
    auto watched = co_await watch_until_all(board, terms, during, shown, gaps, 5402);
    CHECK_MESSAGE(watched, watched.error().what);
    co_await group.join();
    check_once(shown, during.made);
  };
  with_board(settings_for(server), body);
}

TEST_CASE("connections that are cut while watching cost nothing, and repeat nothing") {
  RedisServer server;
  auto body = [](Board& board, RedisServer& redis) -> awaitable<void> {
    Load load{board, 1500};
    TaskGroup group(co_await asio::this_coro::executor);
    auto cut = [](RedisServer& victim, Load& until) -> Async<> {
      int cuts = 0;
      while (!until.is_done || cuts < 3) {
        victim.cli({"CLIENT", "KILL", "TYPE", "pubsub"});
        ++cuts;
        co_await sleep_for(100ms);
      }
      co_return ok;
    };
    auto load_later = [](Load& that, Shown& seen) -> Async<> {
      auto first = value_of(co_await that.board.create_artefact(artefact_of("T")));
      that.made.push_back("artefact " + first.id);
      co_await eventually(10s, "it watches", [&seen] { return !seen.empty(); });
      co_return co_await create_all(that);
    };
    Shown shown;
    int gaps = 0;
    WatchTerms terms;
    terms.with_history = true;
    group.start("test.load", load_later(load, shown));
    group.start("test.cut", cut(redis, load));
    auto watched = co_await watch_until_all(board, terms, load, shown, gaps, 3002);
    CHECK_MESSAGE(watched, watched.error().what);
    co_await group.join();
    CHECK(gaps > 0);
    check_once(shown, load.made);
  };
  with_board(settings_for(server), body, server);
}

TEST_CASE("a watch may be left at any moment") {
  RedisServer server;
  auto body = [](Board& board) -> awaitable<void> {
    Load before{board, 300}, during{board, 1000};
    value_of(co_await create_all(before));
    TaskGroup group(co_await asio::this_coro::executor);
    group.start("test.load", create_all(during));
    for (int i = 0; i < 100; ++i) {
      BoardFeed feed(board.client(), board.keys());
      WatchTerms terms;
      terms.with_history = true;
      Watcher watcher(
          board, feed, terms, [](const Happening&) { return true; }, [](const std::string&) {});
      value_of(co_await watcher.settle());
      auto deadline = Clock::now() + i * 300us;
      auto left = co_await with_deadline(deadline, watcher.run());
      co_await feed.close();
      CHECK(!left);
    }
    co_await group.join();
  };
  with_board(settings_for(server), body);
}

TEST_CASE("a watch ends with a Terminal that is not shown, and with one that is there already") {
  RedisServer server;
  auto body = [](Board& board) -> awaitable<void> {
    auto terminal = artefact_of("Done");
    terminal.structural_type = StructuralType::terminal;
    value_of(co_await board.create_artefact(terminal));
    Load none{board, 0};
    Shown shown;
    int gaps = 0;
    WatchTerms terms{.filter = {.since = UnixTime{}, .type = "Other"},
                     .with_history = true,
                     .until_completion = true};
    auto watched = co_await watch_until_all(board, terms, none, shown, gaps, 1);
    CHECK(watched);
    CHECK(shown.empty());
    terms.filter.since = {};  // history is shown then, and does not end it
    TaskGroup group(co_await asio::this_coro::executor);
    group.start("test.watch", watch_until_all(board, terms, none, shown, gaps, 1));
    while (group.running() > 0) {
      terminal.id.clear();
      value_of(co_await board.create_artefact(terminal));
      co_await sleep_for(20ms);
    }
    co_await group.join();
    CHECK(shown.empty());
  };
  with_board(settings_for(server), body);
}

TEST_CASE("what is filtered by type includes claims and bids on such artefacts") {
  RedisServer server;
  auto body = [](Board& board) -> awaitable<void> {
    Load load{board, 0};
    std::vector<std::string> lines;
    BoardFeed feed(board.client(), board.keys());
    WatchTerms terms{.filter = {.type = "Code*"}, .with_history = true, .until_completion = true};
    Watcher watcher(
        board, feed, terms,
        [&](const Happening& happening) {
          lines.push_back(line_of(happening));
          return true;
        },
        [](const std::string&) {});
    value_of(co_await watcher.settle());
    for (auto type : {"CodeCommit", "Goal"}) {
      auto artefact = value_of(co_await board.create_artefact(artefact_of(type)));
      auto claim = value_of(co_await board.create_claim(claim_on(artefact)));
      value_of(co_await board.set_bid(claim.claim.id, "coder", BidType::exclusive));
    }
    auto terminal = artefact_of("Done");
    terminal.structural_type = StructuralType::terminal;
    value_of(co_await board.create_artefact(terminal));
    value_of(co_await with_deadline(Clock::now() + 20s, watcher.run()));
    co_await feed.close();
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].contains("type=CodeCommit"));
    CHECK(lines[1].contains("Claim created"));
    CHECK(lines[2].contains("Bid submitted: agent=coder"));
  };
  with_board(settings_for(server), body);
}

namespace {

struct Ran {
  int exit;
  std::string out;
};

Ran warren_cli(const std::string& redis, const std::string& words) {
  TempFolder folder;
  auto log = folder.path() / "log";
  auto line = fmt::format("exec {} {} --prefix holt {}", WARREN_BINARY, words, redis);
  Process process(Program{{"bash", "-c", line}, log, {"HOME=" + folder.path().string()}});
  int exit = process.wait(60s);
  std::ifstream in(log);
  return {exit, {std::istreambuf_iterator<char>(in), {}}};
}

std::string without_head(const std::string& text) { return text.substr(text.find('\n')); }

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

awaitable<void> fill(Board& board) {
  auto goal = value_of(co_await board.create_artefact(artefact_of("Goal", "grün \"日本\"\n\x01")));
  auto claim = value_of(co_await board.create_claim(claim_on(goal))).claim;
  value_of(co_await board.set_bid(claim.id, "coder", BidType::exclusive));
  value_of(co_await board.set_bid(claim.id, "critic", BidType::review));
  auto queued = claim;
  queued.status = ClaimStatus::pending_exclusive;
  queued.grant_queue = GrantQueueEntry{UnixTime(1234567ms), "coder", 0};
  queued.phase_state = PhaseState{};
  queued = value_of(co_await board.update_claim(claim, queued));
  auto second = value_of(co_await board.create_artefact(artefact_of("Code")));
  auto first_claim = value_of(co_await board.create_claim(claim_on(second))).claim;
  auto ended = first_claim;
  ended.status = ClaimStatus::terminated;
  ended.termination_reason = "rejected";
  auto feedback = claim_on(second);
  feedback.status = ClaimStatus::pending_assignment;
  feedback.granted_exclusive_agent = "coder";
  value_of(co_await board.replace_claim(first_claim, ended, feedback));
  auto next = second;
  next.id.clear();
  value_of(co_await board.create_next_version(next));  // nobody claimed it
}

}  // namespace

TEST_CASE("a board that was exported, imported and exported again is the same") {
  RedisServer server;
  TempFolder folder;
  auto url = "--redis-url redis://" + server.address();
  auto file = [&folder](const char* name) { return (folder.path() / name).string(); };
  auto body = [](Board& board) -> awaitable<void> { co_await fill(board); };
  with_board(settings_for(server), body);
  auto exported = warren_cli(url, "export --name demo " + file("a"));
  REQUIRE_MESSAGE(exported.exit == 0, exported.out);
  auto imported = warren_cli(url, "import --name copy " + file("a"));
  CHECK_MESSAGE(imported.exit == 0, imported.out);
  CHECK(imported.out.contains("6 of 6"));
  auto again = warren_cli(url, "export --name copy " + file("b"));
  CHECK_MESSAGE(again.exit == 0, again.out);
  CHECK(without_head(contents(file("a"))) == without_head(contents(file("b"))));
  CHECK(contents(file("b")).starts_with(
      R"({"format":"warren-board","version":1,"instance":"copy"})"));
  // Indexes, queues and threads as well, and nothing but them.
  CHECK(server.cli({"ZRANGE", "holt:copy:grant_queue:coder", "0", "-1", "WITHSCORES"})
            .ends_with("1234567"));
  CHECK(server.cli({"ZCARD", "holt:copy:x:unclaimed"}) ==
        server.cli({"ZCARD", "holt:demo:x:unclaimed"}));
  auto repeated = warren_cli(url, "import --name copy <" + file("a"));
  CHECK_MESSAGE(repeated.exit == 0, repeated.out);
  CHECK(repeated.out.contains("0 of 6"));
}

TEST_CASE("an import refuses what is wrong, with its line, and what is on the board and differs") {
  RedisServer server;
  TempFolder folder;
  auto url = "--redis-url redis://" + server.address();
  auto a = (folder.path() / "a").string(), bad = (folder.path() / "bad").string();
  auto body = [](Board& board) -> awaitable<void> { co_await fill(board); };
  with_board(settings_for(server), body);
  REQUIRE(warren_cli(url, "export --name demo " + a).exit == 0);
  auto text = contents(a);
  std::ofstream(bad) << text.substr(0, text.rfind("{\"end\""));
  auto cut = warren_cli(url, "import --name copy " + bad);
  CHECK(cut.exit == 2);
  CHECK(cut.out.contains("the end is missing"));
  std::ofstream(bad, std::ios::trunc)
      << text.substr(0, text.find("\n{\"artefact\"")) << "\n{\"x\":1}\n";
  auto wrong = warren_cli(url, "import --name copy " + bad);
  CHECK(wrong.exit == 2);
  CHECK_MESSAGE(wrong.out.contains("line 6: it is neither"), wrong.out);
  CHECK(server.cli({"EXISTS", "holt:copy:x:artefacts", "holt:copy:x:claim_ids"}) == "0");
  auto at = text.find("日本");
  std::ofstream(bad, std::ios::trunc) << text.substr(0, at) << "中国" << text.substr(at + 6);
  auto other = warren_cli(url, "import --name demo " + bad);
  CHECK(other.exit == 1);
  CHECK_MESSAGE(other.out.contains("is on the board, and another one"), other.out);
  server.cli({"ZADD", "holt:copy:x:artefact_ids", "0", "11111111-1111-4111-8111-111111111111"});
  auto mixed = warren_cli(url, "import --name copy " + a);
  CHECK(mixed.exit == 1);
  CHECK(mixed.out.contains("not in the file"));
}

TEST_CASE("in a cluster a board is watched, listed, moved and destroyed, and others stay") {
  RedisCluster cluster;
  TempFolder folder;
  auto a = (folder.path() / "a").string();
  auto settings = settings_for(cluster);
  auto where = fmt::format("--redis-mode cluster --redis-addrs {}", cluster.node(0).address());
  auto body = [](Board& board) -> awaitable<void> {
    co_await fill(board);
    auto other = Board::open(board.client(), "holt", "demo-2");
    co_await fill(*other);
  };
  with_board(settings, body);
  auto listed = warren_cli(where, "hoard --name demo");
  CHECK_MESSAGE(listed.out.contains("3 artefacts found"), listed.out);
  CHECK(warren_cli(where, "export --name demo " + a).exit == 0);
  auto destroyed = warren_cli(where, "destroy --name demo --yes-name demo");
  CHECK_MESSAGE(destroyed.exit == 0, destroyed.out);
  CHECK(destroyed.out.contains("3 artefacts, 3 claims"));
  CHECK(warren_cli(where, "hoard --name demo").exit == 1);
  CHECK(warren_cli(where, "hoard --name demo-2").out.contains("3 artefacts found"));
  auto imported = warren_cli(where, "import --name demo " + a);
  CHECK_MESSAGE(imported.exit == 0, imported.out);
  CHECK(warren_cli(where, "hoard --name demo").out.contains("3 artefacts found"));
}
