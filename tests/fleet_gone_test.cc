// What becomes of repositories that are no longer where they were: with a real git server, whose answers
// decide it, and a catalog that keeps the time.
#include "base/hmac.h"
#include "tests/with_git_server.h"
#include "tests/with_router.h"

namespace warren::fleet {

namespace {

// A fleet of one repository called "one", at a git server.
struct Place {
  Fleet& fleet;
  GitServer& server;
  std::string commit = {};

  // With nothing else to serve.
  awaitable<void> add(const std::string& path) {
    server.repositories().create("one.git");
    commit = server.repositories().commit("one.git", "int apple_one;\n");
    RepoSpec spec{.url = server.url(path)};
    std::vector<Row> rows(1, Row{.key = "one#0", .spec = to_json(spec)});
    auto added = co_await fleet.catalog.add(std::move(rows), Clock::now() + 20s);
    REQUIRE(added);
  }
  Running<FleetNode>& start_node(const std::string& name, std::chrono::milliseconds gone_after) {
    auto settings = fleet.node_settings(name, 2s);
    settings.rules.allows_http = true;
    settings.fetching.mirrors.folder = fleet.mirrors.path() / ("mirrors-" + name);
    settings.fetching.mirrors.remote.rules = settings.rules;
    settings.poll = 100ms;
    settings.gone_after = gone_after;
    return fleet.start_node(std::move(settings));
  }
  void take_away() const {
    fs::rename(server.repositories().path("one.git"), server.repositories().path("away.git"));
  }
  void bring_back() const {
    fs::rename(server.repositories().path("away.git"), server.repositories().path("one.git"));
  }
};

auto is_found = [](Router& router) -> awaitable<Result<>> {
  auto found = co_await finds(router, "apple_one", 1);
  co_return found;
};
auto leaves = [](Router& router) { return router.table().leaving().contains("one"); };
auto stays = [](Router& router) { return !router.table().leaving().contains("one"); };
auto is_away = [](Router& router) { return router.table().repos().empty(); };

// The row that counts.
awaitable<Row> counting(Catalog& catalog) {
  auto now = Clock::now();
  auto changes = co_await catalog.changes("", now, now + 20s);
  REQUIRE(changes);
  for (const auto& row : changes->rows)
    if (row.key == "one#gone") co_return row;
  FAIL("nothing counts");
  co_return Row();
}

std::size_t looks(const GitServer& server) { return server.requests().size(); }

template <class Body>
void with_place(Body) {
  Orchard none(0);
  with_fleet(none, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    GitServer server;
    Place place{fleet, server};
    Body body;
    co_await body(place);
  });
}

}  // namespace

TEST_CASE("what its host says is gone is served from memory, and leaves when the grace is over") {
  with_place([](Place& place) -> awaitable<void> {
    co_await place.add("open/one.git");
    auto& router = place.fleet.start_router();
    place.start_node("n1", 3s);
    co_await eventually(60s, "it is served", is_found, router);
    auto mirror = place.fleet.mirrors.path() / "mirrors-n1";
    auto has_mirror = [](fs::path& folder) {
      for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ".git") return true;
      return false;
    };
    CHECK(has_mirror(mirror));
    auto begin = Clock::now();
    place.take_away();
    co_await eventually(60s, "it has left", is_away, router);
    CHECK(Clock::now() - begin >= 3s);
    co_await eventually(60s, "nothing counts any more", stays, router);
    auto has_none = [&](fs::path& folder) { return !has_mirror(folder); };
    co_await eventually(60s, "its mirror is gone", has_none, mirror);
    CHECK(place.fleet.metrics.exposition().contains("warren_fleet_left_total 1"));
  });
}

TEST_CASE("neither a restart nor another owner begins a grace anew, and who comes back stays") {
  with_place([](Place& place) -> awaitable<void> {
    co_await place.add("open/one.git");
    auto& router = place.fleet.start_router();
    auto& first = place.start_node("n1", 1h);
    co_await eventually(60s, "it is served", is_found, router);
    place.take_away();
    co_await eventually(60s, "it is about to leave", leaves, router);
    auto found = co_await is_found(router);
    CHECK_MESSAGE(found, (found ? "" : found.error().what));
    auto row = co_await counting(place.fleet.catalog);
    CHECK(row.wait > 55min);
    CHECK(row.wait <= 1h);
    auto gone = parse_gone(row.note);
    REQUIRE(gone);
    CHECK(gone->url == place.server.url("open/one.git"));
    CHECK(gone->why.contains("not found"));

    co_await first.stop();
    place.start_node("n2", 1h);
    // It has nothing in memory, and cannot have it.
    auto has_failed = [](Router& where) {
      return !where.table().repos().at("one").slots.at(0).row.error.empty();
    };
    co_await eventually(60s, "the next one has looked", has_failed, router);
    auto later = co_await counting(place.fleet.catalog);
    CHECK(later.epoch == row.epoch);
    CHECK(later.wait <= row.wait);

    place.bring_back();
    RowChange now;
    now.ends_wait = true;
    auto changed = co_await place.fleet.catalog.change("one#0", std::move(now), Clock::now() + 20s);
    REQUIRE(changed);
    co_await eventually(60s, "it stays", stays, router);
    co_await eventually(60s, "it is served again", is_found, router);
  });
}

TEST_CASE("a host that does not say that a repository is gone lets nothing leave") {
  with_place([](Place& place) -> awaitable<void> {
    co_await place.add("open/one.git");
    auto& router = place.fleet.start_router();
    place.start_node("n1", 1ms);
    co_await eventually(60s, "it is served", is_found, router);
    for (const char* status : {"500", "503", "403", "401", "429"}) {
      write(place.server.path("down"), status);
      auto before = looks(place.server);
      // The second one of them began with this status.
      auto were_looks = [](GitServer& server, std::size_t& count) {
        return looks(server) >= count + 3;
      };
      co_await eventually(60s, "it was looked at", were_looks, place.server, before);
      CHECK(stays(router));
      auto found = co_await is_found(router);
      CHECK_MESSAGE(found, (found ? "" : found.error().what));
    }
  });
}

TEST_CASE("a look that says something else ends a grace, and the next one begins anew") {
  with_place([](Place& place) -> awaitable<void> {
    co_await place.add("open/one.git");
    auto& router = place.fleet.start_router();
    place.start_node("n1", 1h);
    co_await eventually(60s, "it is served", is_found, router);
    write(place.server.path("down"), "404");
    co_await eventually(60s, "it is about to leave", leaves, router);
    auto row = co_await counting(place.fleet.catalog);
    write(place.server.path("down"), "503");
    co_await eventually(60s, "nothing counts", stays, router);
    write(place.server.path("down"), "410");
    co_await eventually(60s, "it is about to leave again", leaves, router);
    auto later = co_await counting(place.fleet.catalog);
    CHECK(later.epoch > row.epoch);
    fs::remove(place.server.path("down"));
    co_await eventually(60s, "it stays", stays, router);
    auto found = co_await is_found(router);
    CHECK_MESSAGE(found, (found ? "" : found.error().what));
  });
}

TEST_CASE("an owner for whom nothing leaves counts nothing") {
  with_place([](Place& place) -> awaitable<void> {
    co_await place.add("open/one.git");
    auto& router = place.fleet.start_router();
    place.start_node("n1", 0ms);
    co_await eventually(60s, "it is served", is_found, router);
    auto before = looks(place.server);
    place.take_away();
    auto were_looks = [](GitServer& server, std::size_t& count) {
      return looks(server) >= count + 3;
    };
    co_await eventually(60s, "it was looked at", were_looks, place.server, before);
    CHECK(stays(router));
    auto found = co_await is_found(router);
    CHECK_MESSAGE(found, (found ? "" : found.error().what));
  });
}

TEST_CASE(
    "a repository that moved for good is followed under its name, and its row says where to") {
  with_place([](Place& place) -> awaitable<void> {
    co_await place.add("moved/one.git");
    RouterSettings settings;
    settings.look = 100ms;
    settings.hook_secret = "secret";
    auto& router = place.fleet.start_router(std::move(settings));
    place.start_node("n1", 1h);
    co_await eventually(60s, "it is served", is_found, router);
    auto has_moved = [](Router& where) {
      return !where.table().repos().at("one").spec.moved_from.empty();
    };
    co_await eventually(60s, "the row knows", has_moved, router);
    auto spec = router.table().repos().at("one").spec;
    CHECK(spec.url == place.server.url("open/one.git"));
    CHECK(spec.moved_from == place.server.url("moved/one.git"));
    auto reply = co_await get(router, "/v1/repos");
    CHECK(reply.body.contains("\"moved_from\":\"" + spec.moved_from + "\""));
    // From now on nobody looks where it was.
    auto listed = [](const GitServer& server, std::string_view path) {
      auto all = server.requests();
      return std::ranges::count_if(all, [&](const auto& line) { return line.contains(path); });
    };
    auto old = listed(place.server, "/moved/");
    auto commit = place.server.repositories().commit("one.git", "int apple_one_new;\n");
    auto has_new = [](Router& where, std::string& wanted) {
      return where.table().repos().at("one").slots.at(0).note.commit_hash == wanted;
    };
    co_await eventually(60s, "a new commit is served", has_new, router, commit);
    CHECK(listed(place.server, "/moved/") == old);
    CHECK(place.server.clones("open/one.git") == 2);
    // Its host tells of pushes by the new name.
    auto push = fmt::format(R"({{"repo":"{}/open/one"}})", place.server.host());
    auto signature = fmt::format("X-Hub-Signature-256: sha256={}\r\n", hmac_sha256("secret", push));
    auto told = co_await post(router, "/hooks/push", std::move(push), std::move(signature));
    CHECK(told.status == 200);
    CHECK(told.body.contains("[\"one\"]"));
  });
}

TEST_CASE("a repository that is elsewhere for now is served from there, and its row stays") {
  with_place([](Place& place) -> awaitable<void> {
    co_await place.add("lent/one.git");
    auto& router = place.fleet.start_router();
    place.start_node("n1", 1h);
    co_await eventually(60s, "it is served", is_found, router);
    CHECK(router.table().repos().at("one").spec.url == place.server.url("lent/one.git"));
    CHECK(router.table().repos().at("one").spec.moved_from.empty());
  });
}

}  // namespace warren::fleet
