// What strangers cannot do to Foghorn: end it, change it, fill it up, or be sent astray by it.
#include "with_federations.h"
#include "with_foghorn.h"

using namespace warren;

namespace {

foghorn::SurfaceTerms behind_proxy(RateTerms rate) {
  foghorn::SurfaceTerms terms;
  terms.is_only_here = true;
  terms.rate = rate;
  terms.proxies = {asio::ip::make_address("127.0.0.1")};
  return terms;
}

// As a program of this machine asks, without a socket.
HttpAnswer asked(foghorn::Surface& surface, std::string_view path, std::string_view query = "",
                 std::string_view host = "localhost:1", std::string_view method = "GET",
                 std::string_view body = "") {
  HttpRequest request{.method = method, .path = path, .query = query, .body = body};
  request.client = asio::ip::make_address("127.0.0.1");
  request.headers[0] = {"Host", host};
  request.header_count = 1;
  HttpAnswer answer;
  CHECK(!surface.answer(request, answer));
  return answer;
}

std::string nested(std::size_t levels) {
  std::string text;
  for (std::size_t i = 0; i < levels; ++i) text += R"({"a":)";
  return text + "1" + std::string(levels, '}');
}

}  // namespace

TEST_CASE("what a node may tell can be shown, however deep it is") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await f.post("/v1/nodes/n1/report", report_of("n1.example", R"("demo":{"inputs":1})"));
    auto told = co_await f.post("/v1/streams/demo/progress",
                                fmt::format(R"({{"node_id":"n1","details":{}}})", nested(55)));
    CHECK(told.status == 200);
    for (std::string target : {"/v1/streams/demo", "/v1/streams?full=true",
                               "/nodes/overview?full=true", "/play/demo", "/v1/nodes/n1"}) {
      CAPTURE(target);
      CHECK((co_await f.get(target)).status == 200);
    }
    CHECK((co_await f.get("/v1/streams/demo")).body.contains(nested(50)));
  });
}

TEST_CASE("without a token changes are for callers of this machine's own name, and only of it") {
  asio::io_context io;
  foghorn::ClusterTerms terms;
  terms.instance_id = "f1";
  auto cluster = foghorn::Cluster::create(io.get_executor(), nullptr, terms);
  REQUIRE(cluster);
  Metrics metrics;
  auto weights = "weights=%7B%22cpu%22%3A1%7D";
  auto cpu = [&] { return balance::weights_of((*cluster)->table_here()).cpu; };
  {
    foghorn::Surface open({{cluster->get(), nullptr}}, metrics, {});
    auto refused = asked(open, "/", weights, "localhost", "POST");
    CHECK(refused.status == 403);
    CHECK(refused.body.contains("FOGHORN_TOKEN"));
    CHECK(asked(open, "/v1/nodes/n/report", "", "localhost", "POST", "{}").status == 403);
    CHECK(asked(open, "/v1/nodes").status == 200);
  }
  foghorn::SurfaceTerms here;
  here.is_only_here = true;
  foghorn::Surface surface({{cluster->get(), nullptr}}, metrics, here);
  for (auto host : {"evil.example", "evil.example:18008", "localhost.evil.example", "10.0.0.1", ""})
    CHECK(asked(surface, "/", weights, host, "POST").status == 403);
  CHECK(cpu() == 500);
  for (auto host : {"localhost", "LocalHost:18008", "127.0.0.1:1", "[::1]:18008", "[::1]"})
    CHECK(asked(surface, "/", weights, host, "POST").status == 200);
  CHECK(cpu() == 1);
}

TEST_CASE("a client is whom the nearest proxy names, in whichever line it does") {
  with_foghorn(
      behind_proxy({.per_second = 0.001, .burst = 3}), [](FoghornVisit& f) -> awaitable<void> {
        int admitted = 0;
        for (int i = 0; i < 10; ++i) {
          auto headers =
              fmt::format("X-Forwarded-For: 10.0.0.{}\r\nX-Forwarded-For: 192.0.2.1\r\n", i);
          if ((co_await f.get("/nobody", headers)).status == 200) ++admitted;
        }
        CHECK(admitted == 3);
        // This machine is not limited, and who claims to be it is.
        admitted = 0;
        for (int i = 0; i < 10; ++i)
          if ((co_await f.get("/nobody", "X-Forwarded-For: 127.0.0.9\r\n")).status == 200)
            ++admitted;
        CHECK(admitted == 3);
        for (int i = 0; i < 10; ++i) CHECK((co_await f.get("/nobody")).status == 200);
      });
}

TEST_CASE("looking at everything costs more than asking for one thing") {
  with_foghorn(
      behind_proxy({.per_second = 0.001, .burst = 200}), [](FoghornVisit& f) -> awaitable<void> {
        co_await f.post("/v1/nodes/n1/report", report_of("n1.example", ""));
        auto admitted = [](FoghornVisit& v, std::string target, std::string who) -> awaitable<int> {
          int count = 0;
          for (int i = 0; i < 300; ++i)
            if ((co_await v.get(target, "X-Forwarded-For: " + who + "\r\n")).status == 200) ++count;
          co_return count;
        };
        CHECK(co_await admitted(f, "/nobody", "192.0.2.1") == 200);
        CHECK(co_await admitted(f, "/v1/digest", "192.0.2.2") == 4);
        CHECK(co_await admitted(f, "/?viewers=*", "192.0.2.3") == 4);
        CHECK(co_await admitted(f, "/nodes/overview", "192.0.2.4") == 4);
        auto limited = co_await f.get("/play/x/hls", "X-Forwarded-For: 192.0.2.2\r\n");
        CHECK(limited.status == 429);
        CHECK(limited.header("access-control-allow-origin") == "*");
      });
}

TEST_CASE("pages may read why they got nothing") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    for (std::string target : {"/play/nobody/hls", "/resolve/%zz", "/abc", "/?ingest=x"}) {
      auto reply = co_await f.get(target);
      CHECK(reply.status >= 400);
      CHECK(reply.header("access-control-allow-origin") == "*");
    }
  });
}

TEST_CASE("nobody is told anything of a cluster that is not loaded") {
  RedisServer server;
  with_client(settings_for(server), [](redis::Client& client) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    foghorn::ClusterTerms terms;
    terms.instance_id = "f1";
    auto cluster = foghorn::Cluster::create(executor, &client, terms);
    REQUIRE(cluster);
    Metrics metrics;
    foghorn::Surface surface({{cluster->get(), nullptr}}, metrics, {});
    for (auto [path, query] : {std::pair{"/play/demo/hls", ""},
                               {"/demo", ""},
                               {"/", "source=demo"},
                               {"/", "ingest=10"}}) {
      auto answer = asked(surface, path, query);
      CHECK(answer.status == 503);
      CHECK(answer.headers.contains("Retry-After: 1"));
    }
    auto started = co_await (*cluster)->start(Clock::now() + 20s);
    CHECK(started);
    CHECK(asked(surface, "/play/demo/hls").status == 404);
    CHECK(asked(surface, "/demo").status == 200);
    co_await (*cluster)->close();
  });
}

TEST_CASE("an instance that lost its id is not ready, and says why") {
  RedisServer server;
  auto body = [](redis::Client& client, RedisServer& redis) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    foghorn::ClusterTerms terms;
    terms.instance_id = "f1";
    auto one = foghorn::Cluster::create(executor, &client, terms);
    auto other = foghorn::Cluster::create(executor, &client, terms);
    REQUIRE(one);
    REQUIRE(other);
    Metrics metrics;
    foghorn::Surface surface({{one->get(), nullptr}}, metrics, {});
    auto first = co_await (*one)->start(Clock::now() + 20s);
    REQUIRE(first);
    CHECK(asked(surface, "/readyz").status == 200);
    redis.cli({"FLUSHALL"});
    auto second = co_await (*other)->start(Clock::now() + 20s);
    REQUIRE(second);
    for (int i = 0; i < 600 && !(*one)->problem(); ++i) co_await sleep_for(50ms);
    auto answer = asked(surface, "/readyz");
    CHECK(answer.status == 503);
    CHECK(answer.body.contains("is used by another process"));
    CHECK(asked(surface, "/healthz").status == 200);
    CHECK(asked(surface, "/healthz").body.contains(R"("status":"degraded")"));
    co_await (*one)->close();
    co_await (*other)->close();
  };
  with_client(settings_for(server), body, server);
}

TEST_CASE("who only looks where he would be sent is not expected there") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await f.post("/v1/nodes/n1/report", report_of("n1.example", R"("demo":{"inputs":1})"));
    for (std::string target : {"/play/demo/hls", "/play/demo", "/demo?proto=https"}) {
      auto head = co_await f.ask("HEAD", target);
      CHECK(head.status < 400);
      CHECK(!head.header("location").contains("fwcid"));
    }
    CHECK(f.cluster.viewers().pending("n1") == 0);
    for (int i = 0; i < 40; ++i) co_await f.get("/play/demo/hls");
    CHECK(f.cluster.viewers().pending("n1") == 32);
  });
}

TEST_CASE("nobody is sent where a stranger's link wants him") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    auto reply = co_await f.get("/?source=nobody&redirect=1&fallback=https%3A%2F%2Fevil.example");
    CHECK(reply.status == 200);
    CHECK(reply.body == "https://evil.example");
    CHECK(reply.header("location").empty());
  });
}

TEST_CASE("a node that does not say where it is gets no viewers") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    auto silent = report_of("", R"("demo":{"inputs":1})");
    silent.replace(silent.find("https://\""), 9, "\"");
    co_await f.post("/v1/nodes/a/report", silent);
    REQUIRE(f.cluster.node("a")->state.base_url.empty());
    CHECK((co_await f.get("/play/demo")).status == 500);
    CHECK((co_await f.get("/demo")).body == "localhost");
    CHECK((co_await f.get("/?source=demo")).body == "dtsc://localhost:4200");
    CHECK((co_await f.get("/?ingest=1")).body == "FULL");
    CHECK(json_of(co_await f.get("/")).as_object().empty());
    CHECK(json_of(co_await f.get("/?lstserver=1")).as_object().empty());
    co_await f.post("/v1/nodes/b/report", report_of("b.example", R"("demo":{"inputs":1})"));
    CHECK((co_await f.get("/play/demo/hls")).header("location").starts_with("https://b.example/"));
    CHECK(json_of(co_await f.get("/play/demo")).at("primary").at("nodeId") == "b");
    CHECK((co_await f.get("/demo")).body == "b.example");
    CHECK((co_await f.get("/?source=live+demo")).body == "dtsc://b.example:4200");
  });
}

TEST_CASE("sums do not overflow, whatever nodes say") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    for (std::string id : {"a", "b"})
      co_await f.post("/v1/nodes/" + id + "/report",
                      report_of(id + ".example",
                                R"("demo":{"inputs":1,"total":3,"bytes_up":9223372036854775807})"));
    auto stats = json_of(co_await f.get("/?streamstats=live+demo"));
    CHECK(stats.at("demo").at(2) == std::numeric_limits<std::int64_t>::max());
  });
}

TEST_CASE("a cluster may have any name, also one that looks like a route") {
  asio::io_context io;
  foghorn::ClusterTerms terms;
  terms.instance_id = "f1";
  terms.cluster_id = "nodes-a";
  auto cluster = foghorn::Cluster::create(io.get_executor(), nullptr, terms);
  REQUIRE(cluster);
  Metrics metrics;
  foghorn::SurfaceTerms here;
  here.is_only_here = true;
  foghorn::Surface surface({{cluster->get(), nullptr}}, metrics, here);
  CHECK(
      asked(surface, "/clusters/nodes-a/v1/nodes/n/report", "", "localhost", "POST", "{}").status ==
      200);
  CHECK(asked(surface, "/clusters/nodes-a/nodes/n/mode", "", "localhost", "PUT",
              R"({"mode":"draining"})")
            .status == 200);
  CHECK((*cluster)->node("n")->mode == balance::NodeMode::draining);
}

TEST_CASE("a way to another cluster is text of a URL, and who was sent is not sent on") {
  Placement placement;
  placement.remote.push_back({"b", "n", "https://n", "", "https://play.b", true, 1});
  CHECK(placement.redirect_url("a?b#c", "x&y") == "https://play.b/play/a%3Fb%23c?from=x%26y");
  with_federations({}, [](Members& a, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    report(*b[0], "b-edge", {{"demo", live()}});
    auto stored = b[0]->cluster->add_artifact("b-edge", {"clip-1", "clip", "/clips/1", 1000});
    REQUIRE(stored);
    for (int i = 0; i < 800 && a[0]->federation->artifact_at("clip-1", 52, 4).empty(); ++i)
      co_await sleep_for(50ms);
    Metrics metrics;
    foghorn::Surface surface({{a[0]->cluster.get(), a[0]->federation.get()}}, metrics, {});
    auto ask = [](foghorn::Surface& of, std::string path,
                  std::string query) -> awaitable<HttpAnswer> {
      HttpRequest request{.method = "GET", .path = path, .query = query};
      request.client = asio::ip::make_address("127.0.0.1");
      HttpAnswer answer;
      auto work = of.answer(request, answer);
      if (work) co_await *std::move(work);
      co_return answer;
    };
    auto sent = co_await ask(surface, "/play/clip-1/h%3Fl%23s", "");
    CHECK(sent.status == 307);
    CHECK(sent.headers.contains("/play/clip-1/h%3Fl%23s?from=a\r\n"));
    auto shown = co_await ask(surface, "/play/clip-1", "");
    CHECK(shown.body.contains("/play/clip-1?from=a\""));
    CHECK((co_await ask(surface, "/play/clip-1/hls", "from=b")).status == 404);
  });
}
