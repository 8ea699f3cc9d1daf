// Snapshots: a node that starts again has what is large without a clone and without a build.
#include "tests/with_fleet.h"
#include "tests/with_git_server.h"

namespace warren::fleet {

namespace {

struct Place {
  Fleet& fleet;
  GitServer& server;

  awaitable<void> add() {
    server.repositories().create("one.git");
    server.repositories().commit("one.git", "int apple_one;\n");
    RepoSpec spec{.url = server.url("open/one.git")};
    std::vector<Row> rows(1, Row{.key = "one#0", .spec = to_json(spec)});
    auto added = co_await fleet.catalog.add(std::move(rows), Clock::now() + 20s);
    REQUIRE(added);
  }
  fs::path folder() const { return fleet.mirrors.path() / "snapshots"; }
  fs::path file() const { return folder() / "one.snapshot"; }
  // With mirrors of its own, so that what it does not remember it clones.
  Running<FleetNode>& start_node(const std::string& name, std::uint64_t over_bytes = 0) {
    auto settings = fleet.node_settings(name, 2s);
    settings.rules.allows_http = true;
    settings.fetching.mirrors.folder = fleet.mirrors.path() / ("mirrors-" + name);
    settings.fetching.mirrors.remote.rules = settings.rules;
    settings.poll = 200ms;
    settings.snapshots = SnapshotTerms{.folder = folder(), .over_bytes = over_bytes, .pause = 0ms};
    return fleet.start_node(std::move(settings));
  }
  double count(const std::string& metric) const {
    auto text = fleet.metrics.exposition();
    auto at = text.find("\n" + metric + " ");
    REQUIRE(at != text.npos);
    return std::stod(text.substr(at + metric.size() + 2));
  }
  double builds() const { return count("warren_fleet_builds_total"); }
  double read() const { return count("warren_fleet_snapshots_total{outcome=\"read\"}"); }
  double written() const { return count("warren_fleet_snapshots_total{outcome=\"written\"}"); }
  double refused() const { return count("warren_fleet_snapshots_total{outcome=\"refused\"}"); }
};

auto is_found = [](Router& router) -> awaitable<Result<>> {
  auto found = co_await finds(router, "apple_one", 1);
  co_return found;
};
auto is_written = [](Place& place) { return place.written() >= 1; };

// The row has no owner, and nobody answers for it.
auto is_free = [](Router& router) {
  return router.table().plan({}, "").routes.empty() && router.table().nodes().empty();
};

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

// Served by a first node, which has written its snapshot and is gone.
awaitable<void> prepare(Place& place, Router& router) {
  co_await place.add();
  auto& first = place.start_node("n1");
  co_await eventually(60s, "it is served", is_found, router);
  co_await eventually(60s, "it is on disk", is_written, place);
  CHECK(place.server.clones("open/one.git") == 1);
  CHECK(place.builds() == 1);
  co_await first.stop();
  co_await eventually(60s, "nobody has it", is_free, router);
}

}  // namespace

TEST_CASE(
    "a node that starts again reads its snapshot into memory, and neither clones nor builds") {
  with_place([](Place& place) -> awaitable<void> {
    auto& router = place.fleet.start_router();
    co_await prepare(place, router);
    place.start_node("n2");
    co_await eventually(60s, "it is served again", is_found, router);
    CHECK(place.read() == 1);
    CHECK(place.builds() == 1);
    CHECK(place.server.clones("open/one.git") == 1);
    // What is served is in memory: without the file it answers as before.
    fs::remove(place.file());
    auto found = co_await is_found(router);
    CHECK_MESSAGE(found, (found ? "" : found.error().what));
    // A new commit is followed as ever.
    place.server.repositories().commit("one.git", "int apple_one, apple_two;\n");
    auto is_new = [](Router& where) -> awaitable<Result<>> {
      auto news = co_await finds(where, "apple_two", 1);
      co_return news;
    };
    co_await eventually(60s, "the new commit is served", is_new, router);
  });
}

TEST_CASE("a snapshot with a flipped byte is refused, and the repository built anew") {
  with_place([](Place& place) -> awaitable<void> {
    auto& router = place.fleet.start_router();
    co_await prepare(place, router);
    auto bytes = contents(place.file());
    auto at = bytes.find("apple_one");
    REQUIRE(at != bytes.npos);
    bytes[at] = 'A';
    write(place.file(), bytes);
    place.start_node("n2");
    co_await eventually(60s, "it is served again", is_found, router);
    CHECK(place.refused() == 1);
    CHECK(place.read() == 0);
    CHECK(place.builds() == 2);
    CHECK(place.server.clones("open/one.git") == 2);
    auto is_better = [](Place& of) { return of.written() >= 2; };
    co_await eventually(60s, "there is a good one", is_better, place);
    CHECK(contents(place.file()).contains("apple_one"));
  });
}

TEST_CASE(
    "a snapshot of an older commit is brought up to date, and one for a reindex is not used") {
  with_place([](Place& place) -> awaitable<void> {
    auto& router = place.fleet.start_router();
    co_await prepare(place, router);
    auto commit = place.server.repositories().commit("one.git", "int apple_one, apple_two;\n");
    auto& second = place.start_node("n2");
    auto has_new = [](Router& where, std::string& wanted) {
      return where.table().repos().at("one").slots.at(0).note.commit_hash == wanted;
    };
    co_await eventually(60s, "the new commit is served", has_new, router, commit);
    CHECK(place.read() == 1);
    auto is_rewritten = [](Place& of) { return of.written() >= 2; };
    co_await eventually(60s, "it is on disk", is_rewritten, place);
    co_await second.stop();
    co_await eventually(60s, "nobody has it", is_free, router);
    auto builds = place.builds();
    RowChange again;
    RepoSpec spec{.url = place.server.url("open/one.git")};
    spec.reindex = 1;
    again.spec = to_json(spec);
    auto changed =
        co_await place.fleet.catalog.change("one#0", std::move(again), Clock::now() + 20s);
    REQUIRE(changed);
    place.start_node("n3");
    co_await eventually(60s, "it is served", is_found, router);
    CHECK(place.read() == 1);
    CHECK(place.builds() == builds + 1);
  });
}

TEST_CASE("what is small has no snapshot, and that of a repository that is removed goes") {
  with_place([](Place& place) -> awaitable<void> {
    auto& router = place.fleet.start_router();
    co_await place.add();
    auto& first = place.start_node("n1", 1u << 30);
    co_await eventually(60s, "it is served", is_found, router);
    co_await router.settled();
    co_await first.stop();
    CHECK(place.written() == 0);
    CHECK(fs::is_empty(place.folder()));
    co_await eventually(60s, "nobody has it", is_free, router);
    place.start_node("n2");
    co_await eventually(60s, "it is on disk", is_written, place);
    CHECK(fs::exists(place.file()));
    std::vector<std::string> keys(1, "one#0");
    auto removed = co_await place.fleet.catalog.remove(std::move(keys), Clock::now() + 10s);
    REQUIRE(removed);
    auto has_none = [](Place& of) { return !fs::exists(of.file()); };
    co_await eventually(60s, "its snapshot is gone", has_none, place);
  });
}

}  // namespace warren::fleet
