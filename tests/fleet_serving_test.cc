// The fleet from claim to answer: nodes take repositories, serve them, lose them and take over.
#include "proof/testkit/faulty_link.h"
#include "tests/with_fleet.h"
#include "tests/with_git_server.h"

namespace warren::fleet {

namespace {

auto finds_all = [](Router& router, std::size_t& files) -> awaitable<Result<>> {
  auto found = co_await finds(router, "apple_", files);
  co_return found;
};

// When each repository was indexed: that of a new build would be another.
std::map<std::string, std::string> built_of(const Router& router) {
  std::map<std::string, std::string> times;
  for (const auto& [name, repo] : router.table().repos())
    times[name] = repo.slots.at(0).note.last_indexed_at;
  return times;
}

}  // namespace

TEST_CASE("two nodes claim all repositories between them, and a router answers for all") {
  Orchard orchard(8);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 8);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1"));
    fleet.start_node(fleet.node_settings("n2"));
    std::size_t files = 24;
    co_await eventually(60s, "every repository is served", finds_all, router, files);
    co_await router.settled();
    std::map<NodeSession, int> owners;
    for (const auto& [name, repo] : router.table().repos()) ++owners[repo.slots.at(0).row.owner];
    CHECK(owners.size() == 2);

    std::vector<Missing> missing;
    auto answer = co_await router.search(ask_for("apple_3_1"), missing);
    REQUIRE(answer);
    CHECK(missing.empty());
    CHECK(answer->is_complete);
    REQUIRE(answer->files.size() == 1);
    CHECK(answer->files[0].repo == "r3");
    CHECK(answer->files[0].path == "src/f1.c");
    CHECK(answer->files[0].lines.at(0).line == 1);
    CHECK(answer->files[0].branches == std::vector<std::string>{"main"});

    auto some = ask_for("apple_");
    some.repos = {"r1", "r7", "nowhere"};
    answer = co_await router.search(std::move(some), missing);
    REQUIRE(answer);
    CHECK(answer->files.size() == 6);
    REQUIRE(missing.size() == 1);
    CHECK(missing[0] == Missing{"nowhere", "unknown"});
    auto none = ask_for("apple_");
    none.repos.emplace();
    answer = co_await router.search(std::move(none), missing);
    REQUIRE(answer);
    CHECK(answer->files.empty());
    auto bad = co_await router.search(ask_for("foo("), missing);
    CHECK_FALSE(bad);
  });
}

TEST_CASE("while nobody serves a repository the answer says so instead of finding nothing") {
  Orchard orchard(2);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 2);
    auto& router = fleet.start_router();
    auto says_unclaimed = [](Router& where) -> awaitable<bool> {
      std::vector<Missing> missing;
      auto answer = co_await where.search(ask_for("apple_"), missing);
      co_return answer && answer->files.empty() && missing.size() == 2 &&
          missing[0].reason == "unclaimed";
    };
    co_await eventually(30s, "both are missing", says_unclaimed, router);
    // Who may wait gets the whole answer.
    fleet.start_node(fleet.node_settings("n1"));
    auto patient = ask_for("apple_");
    patient.wait = 60s;
    std::vector<Missing> missing;
    auto answer = co_await router.search(std::move(patient), missing);
    REQUIRE(answer);
    CHECK(missing.empty());
    CHECK(answer->files.size() == 6);
  });
}

TEST_CASE("when a node is gone the others take its repositories over, under new epochs") {
  Orchard orchard(6);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 6);
    auto& router = fleet.start_router();
    auto& first = fleet.start_node(fleet.node_settings("n1", 2s));
    fleet.start_node(fleet.node_settings("n2", 2s));
    std::size_t files = 18;
    co_await eventually(60s, "every repository is served", finds_all, router, files);
    std::map<std::string, FencingToken> before;
    for (const auto& [name, repo] : router.table().repos())
      if (node_name(repo.slots.at(0).row.owner) == "n1") before[name] = repo.slots.at(0).row.epoch;
    REQUIRE_FALSE(before.empty());
    co_await first.stop();  // says nothing to anybody
    auto have_moved = [](Router& where, std::map<std::string, FencingToken>& old) {
      for (const auto& [name, epoch] : old) {
        const auto& row = where.table().repos().at(name).slots.at(0).row;
        if (row.state != RowState::ready || row.epoch <= epoch) return false;
      }
      return true;
    };
    co_await eventually(60s, "the other node has them", have_moved, router, before);
    co_await eventually(10s, "all is answered again", finds_all, router, files);
  });
}

TEST_CASE("a new commit is served soon, and a repository that is removed is not found any more") {
  Orchard orchard(2);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 2);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1"));
    std::size_t files = 6;
    co_await eventually(60s, "both are served", finds_all, router, files);
    const auto& repository = fleet.orchard.repositories[1];
    repository.write("new.c", "int apple_new;\n");
    repository.commit();
    files = 7;
    co_await eventually(60s, "the new file is found", finds_all, router, files);

    std::vector<std::string> keys(1, "r0#0");
    auto removed = co_await fleet.catalog.remove(std::move(keys), Clock::now() + 10s);
    REQUIRE(removed);
    files = 4;
    co_await eventually(60s, "only the other is found", finds_all, router, files);
  });
}

TEST_CASE(
    "a repository that cannot be had is given back with the reason, and the others are served") {
  Orchard orchard(2);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 2);
    std::vector<Row> rows;
    rows.push_back(
        {.key = "gone#0", .spec = to_json(RepoSpec{.url = fleet.orchard.url(0) + "/none"})});
    rows.push_back({.key = "evil#0", .spec = to_json(RepoSpec{.url = "ext::sh -c id"})});
    auto added = co_await fleet.catalog.add(std::move(rows), Clock::now() + 10s);
    REQUIRE(added);
    auto& router = fleet.start_router();
    fleet.start_node(fleet.node_settings("n1"));
    auto have_failed = [](Router& where) {
      const auto& repos = where.table().repos();
      for (const char* name : {"gone", "evil"})
        if (!repos.contains(name) || repos.find(name)->second.slots.at(0).row.error.empty())
          return false;
      return true;
    };
    co_await eventually(60s, "both have failed", have_failed, router);
    auto others_are_served = [](Router& where) -> awaitable<bool> {
      std::vector<Missing> missing;
      auto answer = co_await where.search(ask_for("apple_"), missing);
      co_return answer && answer->files.size() == 6 && missing.size() == 2;
    };
    co_await eventually(60s, "the others are served", others_are_served, router);
  });
}

TEST_CASE(
    "a node whose lease ended answers for nothing, and has it all again without building it") {
  Orchard orchard(3);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace& place) -> awaitable<void> {
    co_await fleet.add(0, 3);
    auto& router = fleet.start_router();
    auto& node = fleet.start_node(fleet.node_settings("n1", 2s));
    std::size_t files = 9;
    co_await eventually(60s, "all are served", finds_all, router, files);
    auto built = built_of(router);
    place.pause();
    auto is_silent = [](FleetNode& who) { return !who.lease().may_serve(); };
    co_await eventually(30s, "it stops by its own clock", is_silent, *node.part);
    std::vector<Missing> missing;
    auto answer = co_await router.search(ask_for("apple_"), missing);
    REQUIRE(answer);
    CHECK(answer->files.empty());
    CHECK(missing.size() == 3);
    place.resume();
    co_await eventually(60s, "all are served again", finds_all, router, files);
    CHECK(built_of(router) == built);
  });
}

TEST_CASE("a node that claims again what it has in memory needs no answer of its origin") {
  Orchard orchard(3);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace& place) -> awaitable<void> {
    co_await fleet.add(0, 3);
    auto& router = fleet.start_router();
    auto& node = fleet.start_node(fleet.node_settings("n1", 2s));
    std::size_t files = 9;
    co_await eventually(60s, "all are served", finds_all, router, files);
    co_await router.settled();
    auto session = node.part->lease().session();
    place.pause();
    for (const auto& folder : fleet.orchard.folders())
      std::filesystem::rename(folder / ".git", folder / "away");
    auto is_silent = [](FleetNode& who) { return !who.lease().may_serve(); };
    co_await eventually(30s, "it stops by its own clock", is_silent, *node.part);
    co_await sleep_for(500ms);  // and the catalog lets go of it
    place.resume();
    co_await eventually(60s, "all are served again", finds_all, router, files);
    CHECK(node.part->lease().session() != session);
    for (const auto& folder : fleet.orchard.folders())
      std::filesystem::rename(folder / "away", folder / ".git");
  });
}

TEST_CASE("a node that drains hands its rows over, and nothing of it is asked any more") {
  Orchard orchard(4);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 4);
    auto& router = fleet.start_router();
    auto& first = fleet.start_node(fleet.node_settings("n1", 60s));
    fleet.start_node(fleet.node_settings("n2", 60s));
    std::size_t files = 12;
    co_await eventually(60s, "all are served", finds_all, router, files);
    auto built = built_of(router);
    co_await first.part->drain(Clock::now() + 60s);
    auto found = co_await finds(router, "apple_", files);
    CHECK_MESSAGE(found, (found ? "" : found.error().what));
    co_await first.stop();
    for (const auto& [name, repo] : router.table().repos())
      CHECK(node_name(repo.slots.at(0).row.owner) == "n2");
    CHECK(built_of(router) == built);
  });
}

TEST_CASE("replicas are on different nodes, and one that dies costs no answer") {
  Orchard orchard(3);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 3, 2);
    auto& router = fleet.start_router();
    auto& first = fleet.start_node(fleet.node_settings("n1", 10s));
    fleet.start_node(fleet.node_settings("n2", 10s));
    std::size_t files = 9;
    co_await eventually(60s, "all are served", finds_all, router, files);
    co_await router.settled();
    for (const auto& [name, repo] : router.table().repos())
      CHECK(repo.slots.at(0).row.owner != repo.slots.at(1).row.owner);
    co_await first.stop();
    for (int i = 0; i < 20; ++i) {
      auto found = co_await finds(router, "apple_", files);
      CHECK_MESSAGE(found, (found ? "" : found.error().what));
    }
  });
}

namespace {

// One large repository on two nodes. The router asks n1 first, through a link.
struct Replicated {
  static constexpr int lines = 60'000;
  explicit Replicated(const Orchard& orchard) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += fmt::format("int apple_{};\n", i);
    orchard.repositories[0].write("large.c", text);
    orchard.repositories[0].commit();
  }
  awaitable<Router*> start(Fleet& fleet, std::chrono::milliseconds hedge) {
    co_await fleet.add(0, 1, 2);
    RouterSettings settings;
    settings.look = 100ms;
    settings.zone = "near";
    settings.hedge = hedge;
    auto& router = fleet.start_router(std::move(settings));
    auto first = fleet.node_settings("n1", 20s), second = fleet.node_settings("n2", 20s);
    first.zone = "near";
    first.endpoint = fmt::format("http://127.0.0.1:{}", link.port());
    near = fleet.start_node(std::move(first)).part.get();
    link.lead_to(near->port());
    fleet.start_node(std::move(second));
    auto are_both_ready = [](Router& where) {
      const auto& repos = where.table().repos();
      if (!repos.contains("r0")) return false;
      return std::ranges::all_of(repos.find("r0")->second.slots, [](const auto& slot) {
        return slot.second.row.state == RowState::ready && slot.second.note.has_index;
      });
    };
    co_await eventually(60s, "both replicas are served", are_both_ready, router);
    co_return &router;
  }
  // Matches every line.
  static SearchAsk long_query() {
    auto ask = ask_for("apple_\\d+");
    ask.matches = 0;
    ask.timeout = 60s;
    return ask;
  }
  FaultyLink link{1};
  FleetNode* near = nullptr;
};

}  // namespace

TEST_CASE("a query that takes longer than the hedge is answered in full where there are replicas") {
  Orchard orchard(1);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    Replicated replicated(fleet.orchard);
    auto* router = co_await replicated.start(fleet, 1ms);
    for (int i = 0; i < 5; ++i) {
      std::vector<Missing> missing;
      auto answer = co_await router->search(Replicated::long_query(), missing);
      REQUIRE(answer);
      CHECK(missing.empty());
      CHECK(answer->is_complete);
      CHECK(answer->files.size() == 4);
      CHECK(answer->match_count == Replicated::lines + 3);
    }
  });
}

TEST_CASE(
    "while one replica is slow the other answers in full, once, and the slow one is given up") {
  Orchard orchard(1);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    Replicated replicated(fleet.orchard);
    auto* router = co_await replicated.start(fleet, 50ms);
    replicated.link.delay(Direction::to_client, 30s);
    FoundFiles found(fleet.executor, 50);
    std::vector<Missing> missing;
    auto begin = Clock::now();
    auto answer = co_await router->search(Replicated::long_query(), missing, &found);
    auto took = Clock::now() - begin;
    found.end();
    REQUIRE(answer);
    CHECK(missing.empty());
    CHECK(answer->is_complete);
    CHECK(answer->match_count == Replicated::lines + 3);
    CHECK(took < 20s);
    auto told = co_await found.next();
    CHECK(std::ranges::count(told, '\n') == 4);
    auto is_given_up = [](FleetNode& slow) { return slow.info().running == 0; };
    co_await eventually(20s, "the slow one has nothing to do", is_given_up, *replicated.near);
    // It answered nothing at all, so for a while it is not asked first.
    begin = Clock::now();
    answer = co_await router->search(ask_for("apple_0_1"), missing);
    CHECK(Clock::now() - begin < 20s);
    REQUIRE(answer);
    CHECK(answer->files.size() == 1);
    replicated.link.heal();
  });
}

namespace {

// Adds this many megabytes of text that does not compress well.
void fill(const Orchard::Repository& repository, int megabytes) {
  std::mt19937_64 random(11);
  for (int i = 0; i < megabytes; ++i) {
    std::string text = fmt::format("int apple_m{};\n", i);
    while (text.size() < (1u << 20))
      text += fmt::format("int x{:x} = {}; // {:x}\n", random(), random() % 1000, random());
    repository.write(fmt::format("m{}.c", i), text);
  }
  repository.commit();
}

void push(const Orchard::Repository& repository) {
  repository.write("new.c", "int apple_new;\n");
  repository.commit();
}

auto lacks = [](Router& router) {
  const auto& repos = router.table().repos();
  return repos.contains("r0") && repos.find("r0")->second.slots.at(0).note.lacks_bytes > 0;
};

}  // namespace

TEST_CASE("a node that is nearly full follows the commits of a large repository") {
  Orchard orchard(1);
  fill(orchard.repositories[0], 12);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    auto settings = fleet.node_settings("n1");
    settings.shelf.budget_bytes = 38u << 20;  // a second full build would not fit
    settings.delta_from = 1u << 20;
    fleet.start_node(std::move(settings));
    std::size_t files = 15;
    co_await eventually(60s, "it is served", finds_all, router, files);
    co_await router.settled();
    push(fleet.orchard.repositories[0]);
    files = 16;
    co_await eventually(60s, "the new commit is served", finds_all, router, files);
  });
}

TEST_CASE("others are compressed for a new commit that has no room, and it is served then") {
  Orchard orchard(2);
  for (int i : {0, 1}) fill(orchard.repositories[static_cast<std::size_t>(i)], 12);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    auto& router = fleet.start_router();
    auto settings = fleet.node_settings("n1");
    settings.shelf.budget_bytes = 60u << 20;
    auto& node = fleet.start_node(std::move(settings));
    for (int i : {0, 1}) {
      co_await fleet.add(i, i + 1);
      std::size_t files = 15 * static_cast<std::size_t>(i + 1);
      co_await eventually(60s, "it is served", finds_all, router, files);
      co_await router.settled();
    }
    CHECK(node.part->shelf().counters().demoted == 0);
    push(fleet.orchard.repositories[0]);
    std::size_t files = 31;
    co_await eventually(60s, "the new commit is served", finds_all, router, files);
    CHECK(node.part->shelf().counters().demoted > 0);
    CHECK(node.part->shelf().counters().evicted == 0);
    auto lacks_nothing = [](Router& where) { return !lacks(where); };
    co_await eventually(20s, "nothing is lacking", lacks_nothing, router);
  });
}

TEST_CASE("of a new commit that finds no room at all the catalog says how much it needs") {
  Orchard orchard(1);
  fill(orchard.repositories[0], 12);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    auto settings = fleet.node_settings("n1");
    settings.shelf.budget_bytes = 38u << 20;
    fleet.start_node(std::move(settings));
    std::size_t files = 15;
    co_await eventually(60s, "it is served", finds_all, router, files);
    co_await router.settled();
    push(fleet.orchard.repositories[0]);
    co_await eventually(60s, "it is behind", lacks, router);
    auto as_before = co_await finds(router, "apple_", files);
    CHECK(as_before);
    CHECK(router.table().repos().at("r0").slots.at(0).note.lacks_bytes > 28u << 20);
    // Until the origin takes the commit back.
    fleet.orchard.repositories[0].run({"reset", "-q", "--hard", "HEAD~1"});
    auto lacks_nothing = [](Router& where) { return !lacks(where); };
    co_await eventually(60s, "nothing is lacking", lacks_nothing, router);
  });
}

TEST_CASE(
    "what is pinned while memory is full takes the place of another, though nobody asks for it") {
  Orchard orchard(2);
  fill(orchard.repositories[0], 10);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    auto& router = fleet.start_router();
    auto settings = fleet.node_settings("n1");
    settings.shelf.budget_bytes = 36u << 20;
    settings.shelf.youth = 0s;
    settings.shelf.cool_down = 0s;
    auto& node = fleet.start_node(std::move(settings));
    std::size_t files = 13;
    co_await eventually(60s, "the large one is served", finds_all, router, files);
    co_await router.settled();
    co_await fleet.add(1, 2);
    // Its size is not known, and that needs more room than there is even if the other is compressed.
    auto is_known = [](Router& where) { return where.table().repos().contains("r1"); };
    co_await eventually(60s, "the router knows the other one", is_known, router);
    CHECK(node.part->shelf().counters().evicted == 0);
    RepoSpec spec{.url = fleet.orchard.url(1), .is_pinned = true};
    RowChange change;
    change.spec = to_json(spec);
    change.rank = rank_of(spec, 0, 0);
    auto changed =
        co_await fleet.catalog.change(row_key("r1", 0), std::move(change), Clock::now() + 20s);
    REQUIRE(changed);
    auto is_served = [](Router& where) {
      const auto& repos = where.table().repos();
      return repos.contains("r1") && repos.find("r1")->second.is_served();
    };
    co_await eventually(60s, "the pinned one is served", is_served, router);
    CHECK(node.part->shelf().counters().evicted == 1);
  });
}

TEST_CASE("the replicas of a node that drains go to the zone that has no other") {
  Orchard orchard(6);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    auto in_zone = [](Fleet& of, const std::string& name, const char* zone) {
      auto settings = of.node_settings(name, 60s);
      settings.zone = zone;
      return settings;
    };
    co_await fleet.add(0, 6, 2);
    auto& router = fleet.start_router();
    auto& first = fleet.start_node(in_zone(fleet, "n1", "east"));
    fleet.start_node(in_zone(fleet, "n2", "west"));
    auto are_ready = [](Fleet& of) -> awaitable<bool> {
      auto all = co_await of.catalog.changes("", Clock::now(), Clock::now() + 20s);
      co_return all && all->rows.size() == 12 &&
          std::ranges::all_of(all->rows, [](auto& row) { return row.state == RowState::ready; });
    };
    co_await eventually(60s, "all replicas are served", are_ready, fleet);
    fleet.start_node(in_zone(fleet, "n3", "east"));
    fleet.start_node(in_zone(fleet, "n4", "west"));
    auto are_there = [](Fleet& of) -> awaitable<bool> {
      auto nodes = co_await of.catalog.nodes(Clock::now() + 20s);
      co_return nodes && nodes->size() == 4;
    };
    co_await eventually(60s, "all nodes have joined", are_there, fleet);
    co_await first.part->drain(Clock::now() + 10min);
    co_await first.stop();
    co_await router.settled();
    for (const auto& [name, repo] : router.table().repos()) {
      std::set<std::string> owners;
      for (const auto& [number, slot] : repo.slots) owners.emplace(node_name(slot.row.owner));
      CHECK_MESSAGE((owners.size() == 2 && owners.contains("n2") && owners.contains("n3")), name);
    }
  });
}

TEST_CASE("a replica that every other node has, too, is given back at once when its node drains") {
  Orchard orchard(3);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 3, 2);
    auto& router = fleet.start_router();
    auto& first = fleet.start_node(fleet.node_settings("n1", 60s));
    fleet.start_node(fleet.node_settings("n2", 60s));
    std::size_t files = 9;
    co_await eventually(60s, "all are served", finds_all, router, files);
    co_await router.settled();
    auto begin = Clock::now();
    co_await first.part->drain(begin + 10min);
    CHECK(Clock::now() < begin + 5min);
    for (int i = 0; i < 5; ++i) {
      auto found = co_await finds(router, "apple_", files);
      CHECK_MESSAGE(found, (found ? "" : found.error().what));
    }
    co_await first.stop();
  });
}

TEST_CASE("a row that a node owns without knowing it is given back, and served") {
  Orchard orchard(1);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    auto& router = fleet.start_router();
    auto& node = fleet.start_node(fleet.node_settings("n1"));
    auto has_joined = [](Running<FleetNode>& one) { return !one.part->lease().session().empty(); };
    co_await eventually(30s, "the node has joined", has_joined, node);
    // As if the answer to its claim had been lost.
    co_await fleet.add(0, 1);
    auto claim =
        co_await fleet.catalog.claim(node.part->lease().session(), "r0#0", Clock::now() + 10s);
    REQUIRE(claim);
    std::size_t files = 3;
    co_await eventually(60s, "it is served", finds_all, router, files);
  });
}

namespace {

// One repository whose fetch waits at its git server while the catalog begins to refuse its node.
struct Refused {
  Fleet& fleet;
  RedisPlace& place;
  GitServer& server;

  // The node has claimed it and fetches. From here on the catalog takes nothing, and the server answers
  // once `go` is called.
  awaitable<FleetNode*> start() {
    server.repositories().create("one.git");
    server.repositories().commit("one.git", "int apple_one;\n");
    RepoSpec spec{.url = server.url("slow/one.git")};
    std::vector<Row> rows(1, Row{.key = "one#0", .spec = to_json(spec)});
    auto added = co_await fleet.catalog.add(std::move(rows), Clock::now() + 20s);
    REQUIRE(added);
    auto settings = fleet.node_settings("n1", 60s);
    settings.rules.allows_http = true;
    settings.fetching.mirrors.remote.rules = settings.rules;
    auto& node = fleet.start_node(std::move(settings));
    auto is_fetching = [](GitServer& git) { return fs::exists(git.path("waiting")); };
    co_await eventually(60s, "the node fetches it", is_fetching, server);
    place.server.cli({"ACL", "SETUSER", "default", "-eval", "-evalsha"});
    co_return node.part.get();
  }
  void go() const { write(server.path("go"), ""); }
  void allow() const {
    CHECK(place.server.cli({"HGET", "{fleet}:rows", "one#0"}).starts_with("claimed n1/"));
    place.server.cli({"ACL", "SETUSER", "default", "+eval", "+evalsha"});
  }
  Async<Row> row() const {
    auto all = co_await fleet.catalog.changes("", Clock::now(), Clock::now() + 10s);
    if (!all) co_return std::unexpected(all.error());
    for (auto& row : all->rows)
      if (row.key == "one#0") co_return std::move(row);
    co_return fail(Errc::not_found, "there is no such row");
  }
};

}  // namespace

TEST_CASE("a row whose release failed is given back once the catalog takes it, with the reason") {
  Orchard none(0);
  with_fleet(none, [](Fleet& fleet, RedisPlace& place) -> awaitable<void> {
    GitServer server;
    Refused refused{fleet, place, server};
    auto* node = co_await refused.start();
    auto session = node->lease().session();
    write(server.path("down"), "500");
    refused.go();
    auto has_let_go = [](FleetNode& who) { return who.info().repos == 0; };
    co_await eventually(60s, "the node has let go of it", has_let_go, *node);
    refused.allow();
    auto has_failed = [](Refused& where) -> Async<> {
      auto row = co_await where.row();
      if (!row) co_return std::unexpected(row.error());
      if (row->state == RowState::failed && !row->error.empty()) co_return ok;
      co_return fail(Errc::held_elsewhere, "{}, owned by {}", name(row->state), row->owner);
    };
    co_await eventually(60s, "it is given back", has_failed, refused);
    CHECK(node->lease().session() == session);
  });
}

TEST_CASE("what a node shows while the catalog refuses it is told to the catalog later") {
  Orchard none(0);
  with_fleet(none, [](Fleet& fleet, RedisPlace& place) -> awaitable<void> {
    GitServer server;
    Refused refused{fleet, place, server};
    auto* node = co_await refused.start();
    auto session = node->lease().session();
    refused.go();
    auto shows = [](FleetNode& who) { return who.info().used_bytes > 0; };
    co_await eventually(60s, "the node has it in memory", shows, *node);
    refused.allow();
    auto is_served = [](Refused& where) -> Async<> {
      auto row = co_await where.row();
      if (!row) co_return std::unexpected(row.error());
      auto note = parse_note(row->note);
      if (row->state == RowState::ready && note && note->has_index) co_return ok;
      co_return fail(Errc::held_elsewhere, "{}, owned by {}: {}", name(row->state), row->owner,
                     row->note);
    };
    co_await eventually(60s, "the catalog has heard of it", is_served, refused);
    CHECK(node->lease().session() == session);
    CHECK(server.clones("slow/one.git") == 1);
  });
}

}  // namespace warren::fleet
