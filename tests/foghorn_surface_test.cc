// What nodes and operators say to Foghorn, and what is not taken from anybody.
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>

#include "with_foghorn.h"

using namespace warren;

namespace {

foghorn::SurfaceTerms with_token() {
  foghorn::SurfaceTerms terms;
  terms.token = "s3cret";
  return terms;
}

// What the server says to these bytes until it closes, or nothing more comes.
awaitable<std::string> said_to(HttpServer& server, std::string bytes) {
  asio::ip::tcp::socket socket(co_await asio::this_coro::executor);
  asio::ip::tcp::endpoint endpoint(asio::ip::make_address("127.0.0.1"), server.port());
  co_await socket.async_connect(endpoint, asio::use_awaitable);
  boost::system::error_code error;
  auto into = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_write(socket, asio::buffer(bytes), into);
  socket.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  std::string said;
  co_await asio::async_read(socket, asio::dynamic_buffer(said), into);
  co_return said;
}

}  // namespace

TEST_CASE("a node registers, reports, beats, is drained, leaves and is forgotten") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    CHECK(
        (co_await f.post("/v1/nodes/n1/register", R"({"base_url":"n1.example","roles":["edge"]})"))
            .status == 200);
    auto reported = co_await f.post("/v1/nodes/n1/report",
                                    report_of("n1.example", R"("demo":{"total":2,"inputs":1})"));
    CHECK(reported.status == 200);
    CHECK(json_of(reported).at("operational_mode") == "normal");
    CHECK((co_await f.post("/v1/nodes/n1/heartbeat", "")).status == 200);
    auto node = json_of(co_await f.get("/v1/nodes/n1"));
    CHECK(node.at("is_active") == true);
    CHECK(node.at("stream_count") == 1);
    CHECK((co_await f.post("/v1/nodes/n1/heartbeat", R"({"is_healthy":false})")).status == 200);
    CHECK(json_of(co_await f.get("/v1/nodes/n1")).at("is_active") == false);
    co_await f.post("/v1/nodes/n1/heartbeat", "{}");

    auto mode = co_await f.ask("PUT", "/nodes/n1/mode", R"({"mode":"draining","set_by":"ann"})");
    CHECK(mode.status == 200);
    CHECK(json_of(mode).at("operational_mode") == "draining");
    auto drain = json_of(co_await f.get("/nodes/n1/drain-status"));
    CHECK(drain.at("operational_mode") == "draining");
    CHECK(drain.at("is_drained") == false);
    co_await f.post("/v1/nodes/n1/report", report_of("n1.example", ""));
    CHECK(json_of(co_await f.get("/nodes/n1/drain-status")).at("is_drained") == true);
    CHECK((co_await f.post("/v1/nodes/n1/mode", R"({"mode":"sleepy"})")).status == 400);
    CHECK((co_await f.post("/v1/nodes/n1/mode", R"({})")).status == 400);
    CHECK((co_await f.ask("PUT", "/nodes/n2/mode", R"({"mode":"draining"})")).status == 404);
    CHECK((co_await f.get("/nodes/n2/drain-status")).status == 404);

    CHECK((co_await f.post("/v1/nodes/n1/disconnect", "")).status == 200);
    CHECK(json_of(co_await f.get("/v1/nodes/n1")).at("is_stale") == true);
    CHECK((co_await f.ask("DELETE", "/v1/nodes/n1")).status == 200);
    CHECK((co_await f.get("/v1/nodes/n1")).status == 404);
    CHECK((co_await f.ask("DELETE", "/v1/nodes/n1")).status == 404);
  });
}

TEST_CASE("streams tell of themselves, and end") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await f.post("/v1/nodes/n1/report", report_of("n1.example", ""));
    CHECK((co_await f.post("/v1/streams/live+demo/buffer",
                           R"({"node_id":"n1","buffer_state":"FULL","tenant_id":"acme"})"))
              .status == 200);
    CHECK((co_await f.post("/v1/streams/demo/tracks", R"({"node_id":"n1","track_list":"v,a"})"))
              .status == 200);
    CHECK((co_await f.post("/v1/streams/demo/stats",
                           R"({"node_id":"n1","total":4,"inputs":1,"bytes_up":9})"))
              .status == 200);
    CHECK(
        (co_await f.post("/v1/streams/demo/progress", R"({"node_id":"n1","details":{"dvr_s":3}})"))
            .status == 200);
    auto stream = json_of(co_await f.get("/v1/streams/demo"));
    CHECK(stream.at("status") == "live");
    CHECK(stream.at("tenant_id") == "acme");
    CHECK(stream.at("total_connections") == 4);
    CHECK(stream.at("instances").as_array().size() == 1);
    CHECK((co_await f.post("/v1/streams/demo/viewers/connect",
                           R"({"node_id":"n1","client_ip":"192.0.2.7"})"))
              .status == 200);
    CHECK((co_await f.post("/v1/streams/demo/viewers/leave", R"({"node_id":"n1"})")).status == 404);
    CHECK((co_await f.post("/v1/streams/demo/offline", R"({"node_id":"n1"})")).status == 200);
    CHECK(json_of(co_await f.get("/v1/streams/demo")).at("status") == "offline");
    CHECK((co_await f.post("/v1/streams/demo/offline", R"({})")).status == 400);
    CHECK((co_await f.post("/v1/streams/demo/explode", R"({"node_id":"n1"})")).status == 404);
    CHECK((co_await f.ask("DELETE", "/v1/streams/demo")).status == 200);
    CHECK((co_await f.get("/v1/streams/demo")).status == 404);
  });
}

TEST_CASE("the overview shows nodes that are heard of, by capability, page by page") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    for (int i = 0; i < 5; ++i)
      co_await f.post(fmt::format("/v1/nodes/n{}/report", i),
                      report_of(fmt::format("n{}.example", i), R"("demo":{"inputs":1})",
                                i == 4 ? R"(,"roles":["gold"])" : ""));
    co_await f.post("/v1/nodes/n0/disconnect", "");
    auto all = json_of(co_await f.get("/nodes/overview"));
    CHECK(all.as_array().size() == 4);
    CHECK(all.at(0).at("streams").at(0) == "demo");
    CHECK(json_of(co_await f.get("/nodes/overview?include_stale=true")).as_array().size() == 5);
    CHECK(json_of(co_await f.get("/nodes/overview?cap=edge,gold")).as_array().size() == 1);
    auto page = co_await f.get("/nodes/overview?offset=1&limit=2");
    CHECK(json_of(page).at(0).at("node_id") == "n2");
    CHECK(json_of(page).as_array().size() == 2);
    CHECK(page.header("x-total-count") == "4");
    auto full = json_of(co_await f.get("/nodes/overview?full=true&limit=1"));
    CHECK(full.at(0).at("streams").at(0).at("state").at("inputs") == 1);
    CHECK(json_of(co_await f.get("/v1/nodes?limit=2&offset=4")).as_array().size() == 1);
    CHECK(json_of(co_await f.get("/v1/nodes?limit=-1&offset=x")).as_array().size() == 5);
  });
}

TEST_CASE("whatever changes state needs the token, and asking does not") {
  with_foghorn(with_token(), [](FoghornVisit& f) -> awaitable<void> {
    auto report = report_of("n1.example", R"("demo":{"inputs":1})");
    std::string right = "Authorization: Bearer s3cret\r\n",
                wrong = "Authorization: Bearer s3creT\r\n";
    auto before = f.cluster.digest();
    std::vector<std::string> all_wrong{"", wrong, "Authorization: s3cret\r\n"};
    for (const auto& headers : all_wrong) {
      auto reply = co_await f.ask("POST", "/v1/nodes/n1/report", report, headers);
      CHECK(reply.status == 401);
      CHECK(reply.header("www-authenticate") == "Bearer");
    }
    CHECK((co_await f.ask("PUT", "/nodes/n1/mode", R"({"mode":"draining"})")).status == 401);
    CHECK((co_await f.ask("DELETE", "/v1/streams/demo")).status == 401);
    CHECK((co_await f.ask("POST", "/v1/streams/demo/offline", R"({"node_id":"a"})")).status == 401);
    CHECK((co_await f.ask("POST", "/v1/artifacts/x", R"({"node_id":"a"})")).status == 401);
    CHECK((co_await f.post("/?weights=%7B%22cpu%22%3A1%7D", "")).status == 401);
    CHECK(f.cluster.digest() == before);
    CHECK((co_await f.ask("POST", "/v1/nodes/n1/report", report, right)).status == 200);
    CHECK((co_await f.get("/play/demo/hls")).status == 307);
    CHECK((co_await f.get("/v1/nodes")).status == 200);
    CHECK((co_await f.get("/?weights=")).status == 200);
    // Who has none may not even send much.
    auto long_body = std::string(20'000, ' ') + report;
    CHECK((co_await f.ask("POST", "/v1/nodes/n1/report", long_body, right)).status == 200);
    CHECK((co_await f.ask("POST", "/v1/nodes/n1/report", long_body)).status == 413);
  });
}

TEST_CASE("without a token only programs on this machine change state, no proxy and no browser") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    auto report = report_of("n1.example", "");
    for (std::string headers :
         {"Origin: https://evil.example\r\n", "X-Forwarded-For: 192.0.2.1\r\n",
          "Forwarded: for=192.0.2.1\r\n", "Sec-Fetch-Site: cross-site\r\n", "Via: 1.1 proxy\r\n"})
      CHECK((co_await f.ask("POST", "/v1/nodes/n1/report", report, headers)).status == 403);
    auto weights = "/?weights=%7B%22cpu%22%3A1%7D";
    CHECK((co_await f.ask("POST", weights, "", "Referer: http://evil.example/\r\n")).status == 403);
    CHECK((co_await f.get(weights)).status == 405);
    CHECK((co_await f.get("/v1/nodes/n1")).status == 404);
    CHECK((co_await f.post("/v1/nodes/n1/report", report)).status == 200);
  });
}

TEST_CASE("a client that asks too often is told to wait, and the others are not") {
  foghorn::SurfaceTerms terms;
  terms.rate = {.per_second = 1, .burst = 3};
  terms.proxies = {asio::ip::make_address("127.0.0.1")};
  with_foghorn(terms, [](FoghornVisit& f) -> awaitable<void> {
    int refused = 0;
    for (int i = 0; i < 10; ++i) {
      auto reply = co_await f.get("/nobody", "X-Forwarded-For: 10.9.9.9, 192.0.2.1\r\n");
      if (reply.status == 429) ++refused;
      if (reply.status == 429) CHECK(reply.header("retry-after") == "1");
    }
    CHECK(refused >= 6);
    // What a client claims of itself is not believed, only what the proxy added.
    CHECK((co_await f.get("/nobody", "X-Forwarded-For: 192.0.2.1, 192.0.2.2\r\n")).status == 200);
    CHECK((co_await f.get("/nobody", "X-Forwarded-For: 10.1.1.1, 192.0.2.1\r\n")).status == 429);
    CHECK((co_await f.get("/nobody")).status == 200);
    auto metrics = (co_await f.get("/metrics")).body;
    CHECK(metrics.contains("warren_foghorn_http_limited_total"));
    CHECK(metrics.contains(R"(warren_foghorn_http_requests_total{group="balancer",status="2xx"})"));
  });
}

TEST_CASE("what is wrong is refused with its reason, and nothing of it is taken") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await f.post("/v1/nodes/n1/report", report_of("n1.example", R"("demo":{"inputs":1})"));
    auto before = f.cluster.digest();
    auto refused = [](FoghornVisit& v, std::string target,
                      std::string body) -> awaitable<std::string> {
      auto reply = co_await v.post(std::move(target), std::move(body));
      CHECK(reply.status == 400);
      co_return std::string(json_of(reply).at("message").as_string());
    };
    auto whole = report_of("n1.example", R"("other":{"inputs":1})");
    std::string path = "/v1/nodes/n1/report";
    CHECK(!(co_await refused(f, path, whole.substr(0, whole.size() / 2))).empty());
    CHECK(!(co_await refused(f, path, "")).empty());
    CHECK(!(co_await refused(f, path, "[]")).empty());
    CHECK(!(co_await refused(f, path, std::string(100'000, '['))).empty());
    CHECK((co_await refused(f, path, R"({"latitude":NaN})")).size() > 0);
    CHECK((co_await refused(f, path, R"({"latitude":1e999,"longitude":1})")).size() > 0);
    CHECK((co_await refused(f, path, R"({"bw_limit":-1})")).contains("bw_limit"));
    CHECK((co_await refused(f, path, R"({"cpu_tenths":-1})")).contains("cpu_tenths"));
    for (std::string id : {"a%3Ab", "a%2Ab", "a%20b", "a%0Ab", "%7Bx%7D", "a%2Fb", "%zz"})
      CHECK(!(co_await refused(f, "/v1/nodes/" + id + "/report", whole)).empty());
    CHECK(
        !(co_await refused(f, "/v1/nodes/" + std::string(10'000, 'x') + "/report", whole)).empty());
    auto long_name = "\"" + std::string(10'000, 'x') + "\":{\"inputs\":1}";
    CHECK(!(co_await refused(f, path, report_of("n1.example", long_name))).empty());
    CHECK(!(co_await refused(f, path, report_of("n1.example", R"("a:b":{"inputs":1})"))).empty());
    CHECK((co_await f.post(path, std::string((4u << 20) + 1, 'x'))).status == 413);
    CHECK(f.cluster.digest() == before);
    CHECK(f.cluster.nodes().size() == 1);
    CHECK(f.cluster.streams().size() == 1);
  });
}

TEST_CASE(
    "a node with more artifacts than it may have is told so, and the rest of its report counts") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    std::string list;
    for (std::size_t i = 0; i <= foghorn::most_copies; ++i)
      list += fmt::format(R"({}{{"content_id":"c{}","type":"clip","size":5}})", i ? "," : "", i);
    auto report =
        report_of("n1.example", R"("demo":{"inputs":1})", ",\"artifacts\":[" + list + "]");
    auto reply = co_await f.post("/v1/nodes/n1/report", report);
    CHECK(reply.status == 503);
    CHECK(code_of(reply) == "OVERLOADED");
    CHECK(json_of(reply).at("message") ==
          "artifacts: 1 of the 20001 that node n1 lists are not taken, because a node may have "
          "20000 at "
          "most; the rest of the report counts");
    CHECK(f.cluster.artifact_count() == foghorn::most_copies);
    CHECK((co_await f.get("/demo")).body == "n1.example");
    auto one = co_await f.post("/v1/artifacts/one-more", R"({"node_id":"n1","size":5})");
    CHECK(one.status == 503);
    CHECK(code_of(one) == "OVERLOADED");
  });
}

TEST_CASE("bytes that are no request do not end the service") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    CHECK(
        (co_await said_to(f.server, "\x16\x03\x01\x02 hello\r\n\r\n")).starts_with("HTTP/1.1 400"));
    CHECK((co_await said_to(f.server, "GET /" + std::string(20'000, 'x')))
              .starts_with("HTTP/1.1 431"));
    CHECK((co_await said_to(f.server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
              .starts_with("HTTP/1.1 200"));
    CHECK((co_await said_to(f.server,
                            "POST /v1/nodes/a/report HTTP/1.1\r\nContent-Length: 50\r\n\r\n{"))
              .empty());
    auto two = co_await said_to(f.server,
                                "POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: "
                                "chunked\r\n\r\n0\r\n\r\nGET /v1/nodes HTTP/1.1\r\n\r\n");
    CHECK(two.starts_with("HTTP/1.1 411"));
    CHECK(two.find("HTTP/1.1", 1) == two.npos);
    CHECK((co_await f.get("/healthz")).status == 200);
  });
}

TEST_CASE("one process serves several clusters, and is ready when all are loaded") {
  RedisServer server;
  with_client(settings_for(server), [](redis::Client& client) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    foghorn::ClusterTerms terms;
    terms.instance_id = "f1";
    terms.cluster_id = "north";
    auto north = foghorn::Cluster::create(executor, &client, terms);
    terms.cluster_id = "south";
    auto south = foghorn::Cluster::create(executor, &client, terms);
    REQUIRE(north);
    REQUIRE(south);
    Metrics metrics;
    foghorn::SurfaceTerms here;
    here.is_only_here = true;
    foghorn::Surface surface({{north->get(), nullptr}, {south->get(), nullptr}}, metrics, here);
    auto asked = [&surface](std::string_view path, std::string_view method = "GET",
                            std::string_view body = "", std::string_view cluster = "") {
      HttpRequest request{.method = method, .path = path, .query = "", .body = body};
      request.client = asio::ip::make_address("127.0.0.1");
      request.headers[0] = {"Host", "localhost"};
      request.headers[1] = {"X-Cluster-Id", cluster};
      request.header_count = cluster.empty() ? 1 : 2;
      HttpAnswer answer;
      CHECK(!surface.answer(request, answer));
      return answer;
    };
    CHECK(asked("/readyz").status == 503);
    CHECK(asked("/healthz").body.contains("loading"));
    auto deadline = Clock::now() + 20s;
    CHECK(co_await (*north)->start(deadline));
    CHECK(asked("/readyz").status == 503);
    CHECK(co_await (*south)->start(deadline));
    CHECK(asked("/readyz").status == 200);
    CHECK(asked("/healthz").body.contains(R"("status":"healthy")"));

    CHECK(asked("/clusters/south/v1/nodes/s/report", "POST", "{}").status == 200);
    CHECK(asked("/v1/nodes/n/report", "POST", "{}").status == 200);
    CHECK((*north)->nodes().size() == 1);
    CHECK((*north)->node("n"));
    CHECK((*south)->node("s"));
    CHECK(asked("/v1/nodes/s", "GET", "", "south").status == 200);
    CHECK(asked("/v1/nodes/s", "GET", "", "north").status == 404);
    CHECK(asked("/clusters/west/v1/nodes").status == 404);
    co_await (*north)->close();
    co_await (*south)->close();
  });
}
