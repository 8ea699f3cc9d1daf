// The autoscaler's driver for Kubernetes, on a real API server and a real catalog.
#include <doctest/doctest.h>

#include "primitives/catalog/redis.h"
#include "services/fleet/autoscale/kubernetes.h"
#include "services/fleet/plan/drain_request.h"
#include "services/fleet/plan/records.h"
#include "tests/with_client.h"
#include "tests/with_kube.h"

namespace warren::fleet {

namespace {

using kube::good;
using kube::soon;

// A StatefulSet in a namespace of its own, and the catalog with the nodes of its pods.
struct Ground {
  Ground(const asio::any_io_executor& executor, const std::string& user)
      : admin(executor, kube::access_of("admin")), client(executor, kube::access_of(user)) {}

  awaitable<void> begin(int replicas, std::string rules) {
    space = co_await kube::new_space(admin);
    kube::Place sets{kube::kinds::stateful_sets, space};
    auto made =
        co_await admin.create(std::move(sets), kube::stateful_set("fleet", replicas), soon());
    good(std::move(made));
    if (!rules.empty()) co_await kube::allow(admin, space, "robot", rules);
  }
  awaitable<std::int64_t> replicas() {
    kube::Place scale{kube::kinds::stateful_sets, space, "fleet", "scale"};
    auto read = co_await admin.get(std::move(scale), soon());
    co_return kube::number_at(good(std::move(read)), "/spec/replicas", -1);
  }
  KubernetesTerms terms() const { return {.space = space, .stateful_set = "fleet"}; }

  kube::Client admin, client;
  std::string space = {};
};

constexpr const char* role =
    R"([{"apiGroups":["apps"],"resources":["statefulsets/scale"],"verbs":["get","patch"]}])";

// A node as the catalog sees it.
awaitable<NodeSession> join(Catalog& catalog, std::string name) {
  NodeInfo info;
  auto session = co_await catalog.join(std::move(name), to_json(info), 60s, soon());
  REQUIRE(session);
  co_return *session;
}
awaitable<void> say_draining(Catalog& catalog, NodeSession session, bool is) {
  NodeInfo info;
  info.is_draining = is;
  auto said = co_await catalog.beat(std::move(session), to_json(info), soon());
  REQUIRE(said);
}

// Runs body(ground, catalog) for a user who has the least role.
template <class Body>
void with_ground(int replicas, std::string rules, Body body) {
  RedisServer redis;
  testkit::run(
      [](RedisServer& at, int count, std::string role_of, Body work) -> awaitable<void> {
        auto executor = co_await asio::this_coro::executor;
        Ground ground(executor, "robot");
        co_await ground.begin(count, role_of);
        auto catalog = RedisCatalog::open(executor, settings_for(at), "suite");
        REQUIRE_MESSAGE(catalog, (catalog ? "" : catalog.error().what));
        co_await work(ground, **catalog);
        co_await (*catalog)->close();
      }(redis, replicas, std::move(rules), body),
      300s);
}

awaitable<Result<>> told(ScaleDriver& driver, std::size_t nodes, std::size_t wanted) {
  ScaleWish wish{nodes, wanted, "as the test wants"};
  auto done = co_await driver.set(std::move(wish));
  co_return done;
}

}  // namespace

TEST_CASE("with the least role a StatefulSet grows as many as are wanted, and only once") {
  with_ground(2, role, [](Ground& ground, Catalog& catalog) -> awaitable<void> {
    KubernetesDriver driver(ground.client, catalog, ground.terms());
    CHECK(co_await driver.check(soon()));
    CHECK(co_await told(driver, 2, 2));
    CHECK(co_await ground.replicas() == 2);
    CHECK(co_await told(driver, 2, 4));
    CHECK(co_await ground.replicas() == 4);
    CHECK(co_await told(driver, 3, 4));
    CHECK(co_await ground.replicas() == 4);
    // A pod that died is no reason for one less.
    CHECK(co_await told(driver, 3, 3));
    CHECK(co_await ground.replicas() == 4);
  });
}

TEST_CASE("the node of the highest pod drains before there is one replica less") {
  with_ground(3, role, [](Ground& ground, Catalog& catalog) -> awaitable<void> {
    KubernetesDriver driver(ground.client, catalog, ground.terms());
    Row row{.key = row_key("host/a", 0), .spec = to_json(RepoSpec{})};
    std::vector<Row> rows;
    rows.push_back(std::move(row));
    REQUIRE(co_await catalog.add(std::move(rows), soon()));
    for (const char* name : {"fleet-0", "fleet-1"}) co_await join(catalog, name);
    auto highest = co_await join(catalog, "fleet-2");
    auto claim = co_await catalog.claim(highest, row_key("host/a", 0), soon());
    REQUIRE(claim);
    CHECK(co_await told(driver, 3, 2));
    CHECK(co_await ground.replicas() == 3);
    // It was asked to, and only it.
    auto all = co_await catalog.changes("", Clock::now(), soon());
    REQUIRE(all);
    std::vector<std::string> asked;
    for (const auto& each : all->rows)
      if (auto session = session_of_drain(each.key)) asked.emplace_back(*session);
    CHECK(asked == std::vector<std::string>{highest});
    co_await say_draining(catalog, highest, true);
    CHECK(co_await told(driver, 2, 2));
    CHECK(co_await ground.replicas() == 3);  // it still has a repository
    Release usual;
    REQUIRE(co_await catalog.release(*claim, usual, soon()));
    CHECK(co_await told(driver, 2, 2));
    CHECK(co_await ground.replicas() == 2);
    REQUIRE(co_await catalog.leave(highest, soon()));
    CHECK(co_await told(driver, 2, 2));
    CHECK(co_await ground.replicas() == 2);
  });
}

TEST_CASE("when more are wanted meanwhile, the node that drains is taken back") {
  with_ground(2, role, [](Ground& ground, Catalog& catalog) -> awaitable<void> {
    KubernetesDriver driver(ground.client, catalog, ground.terms());
    co_await join(catalog, "fleet-0");
    auto highest = co_await join(catalog, "fleet-1");
    CHECK(co_await told(driver, 2, 1));
    co_await say_draining(catalog, highest, true);
    CHECK(co_await told(driver, 1, 2));
    CHECK(co_await ground.replicas() == 2);
    auto all = co_await catalog.changes("", Clock::now(), soon());
    REQUIRE(all);
    CHECK(all->rows.empty());
  });
}

TEST_CASE("what a person drains stays as it is") {
  with_ground(2, role, [](Ground& ground, Catalog& catalog) -> awaitable<void> {
    KubernetesDriver driver(ground.client, catalog, ground.terms());
    co_await join(catalog, "fleet-0");
    auto highest = co_await join(catalog, "fleet-1");
    std::vector<Row> wish;
    wish.push_back(row_of(highest, {}));
    REQUIRE(co_await catalog.add(std::move(wish), soon()));
    co_await say_draining(catalog, highest, true);
    CHECK(co_await told(driver, 1, 1));
    CHECK(co_await told(driver, 1, 2));
    CHECK(co_await ground.replicas() == 2);
    auto all = co_await catalog.changes("", Clock::now(), soon());
    REQUIRE(all);
    CHECK(all->rows.size() == 1);
  });
}

TEST_CASE("without the rights, or without the StatefulSet, it says so before it begins") {
  with_ground(2, R"([{"apiGroups":["apps"],"resources":["statefulsets/scale"],"verbs":["get"]}])",
              [](Ground& ground, Catalog& catalog) -> awaitable<void> {
                KubernetesDriver driver(ground.client, catalog, ground.terms());
                auto checked = co_await driver.check(soon());
                REQUIRE(!checked);
                CHECK(checked.error().code == Errc::denied);
                CHECK(checked.error().what.contains("patch statefulsets/fleet/scale"));
                auto refused = co_await told(driver, 2, 4);
                REQUIRE(!refused);
                CHECK(refused.error().code == Errc::denied);
                auto terms = ground.terms();
                terms.stateful_set = "other";
                KubernetesDriver misled(ground.admin, catalog, terms);
                checked = co_await misled.check(soon());
                REQUIRE(!checked);
                CHECK(checked.error().code == Errc::not_found);
              });
}

}  // namespace warren::fleet
