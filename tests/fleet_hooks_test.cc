// A push is searchable at once when the git host tells of it.
#include "base/hmac.h"
#include "net/http/client.h"
#include "tests/with_fleet.h"

namespace warren::fleet {

namespace {

auto finds_files = [](Router& router, std::size_t& files) -> awaitable<Result<>> {
  auto found = co_await finds(router, "apple_", files);
  co_return found;
};

// A fleet that looks for new commits by itself only once an hour.
struct Hooked {
  explicit Hooked(Fleet& all) : fleet(all), router(all.start_router(settings())) {
    auto node = fleet.node_settings("n1");
    node.poll = 1h;
    node.token = "mangrove";
    fleet.start_node(std::move(node));
  }
  static RouterSettings settings() {
    RouterSettings made;
    made.look = 100ms;
    made.node_token = "mangrove";
    made.hook_secret = "heron";
    return made;
  }
  void push(int place, const std::string& word) const {
    const auto& repository = fleet.orchard.repositories[static_cast<std::size_t>(place)];
    repository.write(word + ".c", "int apple_" + word + ";\n");
    repository.commit();
  }
  Async<HttpReply> hook(std::string body, std::string secret) const {
    HttpClient client(fleet.executor, *parse_http_url(router.url()));
    HttpAsk ask{"POST", "/hooks/push"};
    ask.headers = fmt::format("X-Hub-Signature-256: sha256={}\r\n", hmac_sha256(secret, body));
    ask.body = std::move(body);
    auto reply = co_await client.ask(std::move(ask), Clock::now() + 20s);
    co_return reply;
  }

  Fleet& fleet;
  Router& router;
};

// Adds up how late short sleeps end, which shows how much a busy machine delays whatever is measured
// meanwhile.
awaitable<void> watch_lateness(Clock::duration& late) {
  for (;;) {
    auto due = Clock::now() + 10ms;
    co_await sleep_until(due);
    late += std::max<Clock::duration>(Clock::now() - due, 0ms);
  }
}

}  // namespace

TEST_CASE("a push to a small repository is searchable within two seconds of its hook") {
  Orchard orchard(3);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 3);
    Hooked hooked(fleet);
    std::size_t files = 9;
    co_await eventually(60s, "all are served", finds_files, hooked.router, files);
    co_await hooked.router.settled();
    auto measure = [](TaskGroup& tasks, Hooked& with, std::size_t& expected) -> awaitable<bool> {
      for (int i = 0; i < 5; ++i) {
        with.push(1, fmt::format("p{}", i));
        Clock::duration late{};
        auto watching = tasks.start("test.lateness", watch_lateness(late));
        auto begin = Clock::now();
        auto taken = co_await with.hook(R"({"repo":"r1"})", "heron");
        REQUIRE(taken);
        REQUIRE(taken->status == 200);
        ++expected;
        co_await eventually(60s, "the push is found", finds_files, with.router, expected);
        auto took = Clock::now() - begin;
        tasks.stop(watching);
        CAPTURE(std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
        CAPTURE(std::chrono::duration_cast<std::chrono::milliseconds>(late).count());
        CHECK(took <= 2s + late);
        co_await tasks.join();
      }
      co_return true;
    };
    co_await with_group(measure, hooked, files);
  });
}

TEST_CASE("a push is searchable as soon as its hook was taken, and an unsigned one does nothing") {
  Orchard orchard(2);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 2);
    Hooked hooked(fleet);
    std::size_t files = 6;
    co_await eventually(60s, "both are served", finds_files, hooked.router, files);
    co_await hooked.router.settled();

    hooked.push(0, "new");
    auto refused = co_await hooked.hook(R"({"repo":"r0"})", "crane");
    REQUIRE(refused);
    CHECK(refused->status == 401);
    auto unknown = co_await hooked.hook(R"({"repo":"r9"})", "heron");
    REQUIRE(unknown);
    CHECK(unknown->status == 404);
    auto nothing = co_await hooked.hook("{}", "heron");
    REQUIRE(nothing);
    CHECK(nothing->status == 400);
    auto as_before = co_await finds(hooked.router, "apple_", files);
    CHECK(as_before);

    auto taken = co_await hooked.hook(R"({"repo":"r0"})", "heron");
    REQUIRE(taken);
    CHECK(taken->status == 200);
    CHECK(taken->body == R"({"repos":["r0"],"nodes":1})");
    files = 7;
    co_await eventually(60s, "the push is found", finds_files, hooked.router, files);
  });
}

TEST_CASE("of pushes that come while an earlier one is fetched, the last is found, too") {
  Orchard orchard(1);
  with_fleet(orchard, [](Fleet& fleet, RedisPlace&) -> awaitable<void> {
    co_await fleet.add(0, 1);
    Hooked hooked(fleet);
    std::size_t files = 3;
    co_await eventually(60s, "it is served", finds_files, hooked.router, files);
    co_await hooked.router.settled();
    for (int i = 0; i < 10; ++i) {
      hooked.push(0, fmt::format("n{}", i));
      auto taken = co_await hooked.hook(R"({"repo":"r0"})", "heron");
      REQUIRE(taken);
      CHECK(taken->status == 200);
    }
    files = 13;
    co_await eventually(60s, "all ten are found", finds_files, hooked.router, files);
  });
}

}  // namespace warren::fleet
