// The queries of media servers and the redirects of viewers, over sockets.
#include "net/http/target.h"
#include "with_foghorn.h"

using namespace warren;

namespace {

// Two edges in Europe and America, and one that nobody hears of any more.
awaitable<void> furnish(FoghornVisit& f) {
  auto a = report_of("edge-a.example:8080",
                     R"("demo":{"total":3,"inputs":1,"bytes_up":10},"zoo1":{"total":1,"inputs":1})",
                     R"(,"latitude":52.1,"longitude":4.3,"tags":["premium"])");
  auto b = report_of("edge-b.example",
                     R"("live+demo":{"total":2,"inputs":1,"replicated":true,"bytes_up":5})",
                     R"(,"latitude":40.7,"longitude":-74.0)");
  auto c = report_of("edge-c.example", R"("demo":{"total":10,"inputs":1})");
  CHECK((co_await f.post("/v1/nodes/a/report", a)).status == 200);
  CHECK((co_await f.post("/v1/nodes/b/report", b)).status == 200);
  CHECK((co_await f.post("/v1/nodes/c/report", c)).status == 200);
  CHECK((co_await f.post("/v1/nodes/c/disconnect", "")).status == 200);
}

std::string location(const HttpReply& reply) { return std::string(reply.header("location")); }
// Without what is different each time.
std::string place(const HttpReply& reply) {
  auto url = location(reply);
  return url.substr(0, url.find("fwcid="));
}

}  // namespace

TEST_CASE("viewers and figures of a stream are sums over the nodes that are active") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    CHECK((co_await f.get("/?viewers=demo")).body == "5");
    CHECK((co_await f.get("/?viewers=live%2Bdemo")).body == "5");
    CHECK((co_await f.get("/?viewers=nobody")).body == "0");
    CHECK((co_await f.get("/?viewers=*")).body == "6");
    CHECK((co_await f.get("/?viewers=zo*")).body == "1");
    auto stats = json_of(co_await f.get("/?streamstats=demo"));
    CHECK(stats.at("demo").at(0) == 5);
    CHECK(stats.at("demo").at(2) == 15);
    CHECK(stats.at("demo").as_array().size() == 4);
    CHECK(json_of(co_await f.get("/?streamstats=*")).as_object().size() == 2);
    CHECK(json_of(co_await f.get("/?streamstats=nobody")).as_object().empty());
  });
}

TEST_CASE("hosts are listed by name, with percentages that were divided once") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    auto all = json_of(co_await f.get("/"));
    CHECK(all.as_object().size() == 3);
    const auto& a = all.at("edge-a.example:8080");
    CHECK(a.at("cpu").to_number<double>() == 10);
    CHECK(a.at("ram").to_number<double>() == 10);
    CHECK(a.at("bwlimit").to_number<double>() == 1e9);
    CHECK(a.at("geo").at("lat").to_number<double>() == doctest::Approx(52.1));
    CHECK(a.at("tags").at(0) == "premium");
    CHECK(a.at("streams") == 2);
    CHECK(a.at("score").at("cpu") == 450);
    auto one = json_of(co_await f.get("/?host=edge-a.example"));
    CHECK(one.as_object().size() == 1);
    CHECK(one.as_object().contains("edge-a.example:8080"));
    CHECK(json_of(co_await f.get("/?host=other")).as_object().empty());
    auto servers = json_of(co_await f.get("/?lstserver=1"));
    CHECK(servers.at("edge-b.example") == "Monitored (online)");
    CHECK(servers.at("edge-c.example") == "Offline");
  });
}

TEST_CASE("a node that never said how much memory it has is listed, too") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await f.post("/v1/nodes/x/report", R"({"base_url":"x.example","is_healthy":true})");
    auto all = json_of(co_await f.get("/"));
    CHECK(all.at("x.example").at("ram").to_number<double>() == 0);
    CHECK(!all.at("x.example").as_object().contains("score"));
  });
}

TEST_CASE(
    "a node that uses more memory than it has is listed with that, and viewers are sent there") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    auto beyond =
        report_of("x.example", R"("demo":{"total":1,"inputs":1})", R"(,"ram_current":1500)");
    beyond.replace(beyond.find(R"("ram_current":100,)"), 18, "");
    auto reply = co_await f.post("/v1/nodes/x/report", beyond);
    CHECK(reply.status == 200);
    const auto x = json_of(co_await f.get("/")).at("x.example");
    CHECK(x.at("ram").to_number<double>() == 150);
    CHECK(x.at("score").at("ram") == 0);
    CHECK((co_await f.get("/demo")).body == "x.example");
    CHECK((co_await f.get("/play/demo/hls")).status == 307);
  });
}

TEST_CASE("weights are changed in part, and always told whole") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    auto before = json_of(co_await f.get("/?weights="));
    CHECK(before.at("cpu") == 500);
    auto wanted = "/?weights=" + percent_encoded(R"({"cpu":7,"geo":9})");
    auto by_get = co_await f.get(wanted);
    CHECK(by_get.status == 405);
    CHECK(by_get.header("allow") == "POST");
    CHECK(json_of(co_await f.get("/?weights=")) == before);
    auto after = json_of(co_await f.post(wanted, ""));
    CHECK(after.at("cpu") == 7);
    CHECK(after.at("ram") == 500);
    CHECK(after.at("geo") == 9);
    CHECK(json_of(co_await f.get("/?weights=")) == after);
    for (const char* wrong : {"{", "", R"({"cpu":-1})", R"({"cpu":1e300})"})
      CHECK((co_await f.post("/?weights=" + percent_encoded(wrong), "")).status == 400);
    CHECK(json_of(co_await f.get("/?weights=")) == after);
  });
}

TEST_CASE("whatever is asked for with GET or HEAD, nothing that an instance knows is another") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    auto digest = f.cluster.digest();
    auto known =
        std::vector<std::string>{"/v1/nodes", "/v1/streams", "/v1/artifacts", "/?weights="};
    std::vector<std::string> before;
    for (const auto& target : known) before.push_back((co_await f.get(target)).body);
    // Every route: those that tell, and those that change when they are asked with POST, PUT or DELETE.
    std::vector<std::string> targets;
    for (const char* path : {"/",
                             "/?source=demo",
                             "/?source=demo&redirect=1",
                             "/?ingest=1",
                             "/?viewers=*",
                             "/?streamstats=*",
                             "/?host=n1.example",
                             "/?lstserver=1",
                             "/demo",
                             "/demo?proto=https",
                             "/demo?explain=1",
                             "/play/demo",
                             "/play/demo/hls",
                             "/resolve/demo",
                             "/v1/balance?stream=demo&explain=1",
                             "/v1/digest",
                             "/v1/leader",
                             "/v1/peers",
                             "/nodes/overview?full=true",
                             "/healthz",
                             "/health",
                             "/readyz",
                             "/metrics",
                             "/favicon.ico",
                             "/v1/nodes/n1",
                             "/v1/streams/demo",
                             "/v1/artifacts/x",
                             "/nodes/n1/drain-status",
                             "/nodes/n1/mode?mode=draining",
                             "/v1/nodes/n1/mode?mode=draining",
                             "/v1/nodes/n1/report",
                             "/v1/nodes/n1/register",
                             "/v1/nodes/n1/heartbeat",
                             "/v1/nodes/n1/disconnect",
                             "/v1/streams/demo/buffer?node_id=n1",
                             "/v1/streams/demo/tracks?node_id=n1",
                             "/v1/streams/demo/stats?node_id=n1",
                             "/v1/streams/demo/progress?node_id=n1",
                             "/v1/streams/demo/offline?node_id=n1",
                             "/v1/streams/demo/viewers/connect?node_id=n1",
                             "/v1/streams/demo/viewers/disconnect?node_id=n1",
                             "/v1/artifacts/x?node_id=n1"})
      targets.emplace_back(path);
    for (const char* weights : {R"({"cpu":7})", "{", "7"})
      targets.push_back("/?weights=" + percent_encoded(weights));
    for (const auto& target : targets)
      for (const char* method : {"GET", "HEAD"}) {
        CAPTURE(method);
        CAPTURE(target);
        co_await f.ask(method, target);
        CHECK(f.cluster.digest() == digest);
      }
    for (std::size_t i = 0; i < known.size(); ++i) {
      CAPTURE(known[i]);
      CHECK((co_await f.get(known[i])).body == before[i]);
    }
  });
}

TEST_CASE("a source is the origin, whatever prefix its name is given with") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    CHECK((co_await f.get("/?source=demo")).body == "dtsc://edge-a.example:4200");
    CHECK((co_await f.get("/?source=live%2Bdemo")).body == "dtsc://edge-a.example:4200");
    auto sent = co_await f.get("/?source=demo&redirect=1");
    CHECK(sent.status == 302);
    CHECK(location(sent) == "dtsc://edge-a.example:4200");
    CHECK((co_await f.get("/?source=nobody")).body == "dtsc://localhost:4200");
    CHECK((co_await f.get("/?source=nobody&fallback=push%3A%2F%2F")).body == "push://");
    // Nobody pulls from himself.
    co_await f.post("/v1/nodes/a/register", R"({"host":"127.0.0.1"})");
    CHECK((co_await f.get("/?source=demo")).body == "dtsc://localhost:4200");
  });
}

TEST_CASE("an ingest goes where there is room for it") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    CHECK((co_await f.get("/?ingest=10")).body == "FULL");
    co_await furnish(f);
    CHECK((co_await f.get("/?ingest=10&lat=52&lon=4")).body == "edge-a.example:8080");
    CHECK((co_await f.get("/?ingest=89")).body != "FULL");
    CHECK((co_await f.get("/?ingest=90")).body == "FULL");
    CHECK((co_await f.get("/?ingest=10&cap=storage")).body == "FULL");
    CHECK((co_await f.get("/?ingest=nan")).status == 400);
    CHECK((co_await f.get("/?ingest=x")).status == 400);
  });
}

TEST_CASE("the host of a stream, or a way to it") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    auto near = co_await f.get("/demo?lat=52&lon=4");
    CHECK(near.body == "edge-a.example:8080");
    CHECK(near.header("access-control-allow-origin") == "*");
    auto sent = co_await f.get("/live+demo?proto=https&lat=40&lon=-74");
    CHECK(sent.status == 307);
    CHECK(place(sent) == "https://edge-b.example/live+demo?proto=https&lat=40&lon=-74&");
    CHECK(sent.body == location(sent));
    CHECK(f.cluster.viewers().pending("b") == 1);
    CHECK((co_await f.get("/demo?cap=storage")).body == "localhost");
    CHECK((co_await f.get("/nobody")).body == "localhost");
    CHECK((co_await f.get("/abc")).status == 400);
    CHECK((co_await f.get("/de%20mo")).status == 400);
    CHECK((co_await f.get("/demo*")).status == 400);
    CHECK((co_await f.get("/" + std::string(129, 'x'))).status == 400);
    CHECK((co_await f.get("/demo?proto=java%0Ascript")).status == 400);
    CHECK((co_await f.get("/favicon.ico")).status == 404);
    CHECK((co_await f.get("/demo/more")).status == 404);
    CHECK((co_await f.ask("DELETE", "/demo")).status == 405);
    CHECK((co_await f.ask("OPTIONS", "/demo")).status == 200);
  });
}

TEST_CASE("where the viewer is: the edge's word, the proxy's, his own; nonsense is passed over") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    auto best = [](FoghornVisit& v, std::string query,
                   std::string headers) -> awaitable<std::string> {
      co_return (co_await v.get("/demo" + query, std::move(headers))).body;
    };
    std::string europe = "edge-a.example:8080", america = "edge-b.example";
    std::string cf = "CF-IPLatitude: 40\r\nCF-IPLongitude: -74\r\n";
    std::string x = "X-Latitude: 52\r\nX-Longitude: 4\r\n";
    CHECK(co_await best(f, "?lat=52&lon=4", "") == europe);
    CHECK(co_await best(f, "?lat=40&lon=-74", x) == europe);
    CHECK(co_await best(f, "?lat=52&lon=4", cf + x) == america);
    for (std::string nonsense : {"nan", "inf", "91", "1e999", "0x10", "", "40 ", "4,0"}) {
      auto header = fmt::format("CF-IPLatitude: {0}\r\nCF-IPLongitude: {0}\r\n", nonsense);
      if (nonsense != "40 ") CHECK(co_await best(f, "", header + x) == europe);
    }
    auto explained = json_of(co_await f.get("/demo?explain=1&lat=nan&lon=inf"));
    CHECK(explained.at("nodes").at(0).at("geo") == 0);
  });
}

TEST_CASE("tags move viewers, and what is no list of tags does not") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    std::string there = "?lat=40&lon=-74";
    CHECK((co_await f.get("/demo" + there)).body == "edge-b.example");
    auto wanted = "X-Tag-Adjust: {\"premium\": 900}\r\n";
    CHECK((co_await f.get("/demo" + there, wanted)).body == "edge-a.example:8080");
    auto in_query = there + "&tag_adjust=" + percent_encoded(R"({"-premium":-9000})");
    CHECK((co_await f.get("/demo" + in_query)).body == "edge-a.example:8080");
    for (auto wrong : {"{", "[1]", "{\"premium\": \"900\"}", "{\"premium\": 1e9}"})
      CHECK((co_await f.get("/demo" + there, fmt::format("X-Tag-Adjust: {}\r\n", wrong))).body ==
            "edge-b.example");
  });
}

TEST_CASE("a viewer is sent to an edge that has what he wants, and is expected there") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    auto sent = co_await f.get("/play/demo/hls?lat=52&lon=4&token=t&fwcid=mine");
    CHECK(sent.status == 307);
    CHECK(sent.header("access-control-allow-origin") == "*");
    CHECK(place(sent) == "https://edge-a.example:8080/hls/demo/index.m3u8?lat=52&lon=4&token=t&");
    CHECK(!location(sent).contains("mine"));
    CHECK(f.cluster.viewers().pending("a") == 1);
    auto id = location(sent).substr(location(sent).find("fwcid=") + 6);
    CHECK((co_await f.post("/v1/streams/demo/viewers/connect",
                           fmt::format(R"({{"node_id":"a","correlation_id":"{}"}})", id)))
              .status == 200);
    CHECK(f.cluster.viewers().pending("a") == 0);
    CHECK(f.cluster.viewers().active("a") == 1);
    // The manifest comes before the query, unless the URL is one.
    CHECK(place(co_await f.get("/play/demo/cmaf/a/index.m3u8")) ==
          "https://edge-a.example:8080/cmaf/demo/a/index.m3u8?");
    CHECK(place(co_await f.get("/play/demo/hls/other.m3u8")) ==
          "https://edge-a.example:8080/hls/demo/index.m3u8?");
    CHECK(place(co_await f.get("/play/demo.m3u8")) ==
          "https://edge-a.example:8080/hls/demo/index.m3u8?");
    CHECK(place(co_await f.get("/resolve/live+demo/WHEP?lat=40&lon=-74")) ==
          "https://edge-b.example/webrtc/live+demo?lat=40&lon=-74&");
    auto head = co_await f.ask("HEAD", "/play/demo/hls");
    CHECK(head.status == 307);
  });
}

TEST_CASE("without a protocol he gets all of them as JSON, with those to fall back to") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    co_await f.post("/v1/streams/demo/buffer",
                    R"({"node_id":"a","buffer_state":"FULL","tenant_id":"acme","playback_id":"pb1",
                        "details":{"v":{"codec":"H264","width":1920,"height":1080,"kbits":5000}}})");
    for (std::string target : {"/play/pb1?lat=52&lon=4", "/resolve/demo/any?lat=52&lon=4"}) {
      auto all = json_of(co_await f.get(target));
      const auto& primary = all.at("primary");
      CHECK(primary.at("nodeId") == "a");
      CHECK(primary.at("protocol") == "WebRTC");
      CHECK(primary.at("url").as_string().find("fwcid=") != boost::json::string::npos);
      CHECK(primary.at("geoDistance").to_number<double>() == doctest::Approx(23.2).epsilon(0.05));
      CHECK(primary.at("outputs").at("HLS").at("url").as_string().starts_with("https://edge-a"));
      CHECK(all.at("fallbacks").as_array().size() == 1);
      CHECK(all.at("fallbacks").at(0).at("nodeId") == "b");
      const auto& about = all.at("metadata");
      CHECK(about.at("isLive") == true);
      CHECK(about.at("status") == "live");
      CHECK(about.at("bufferState") == "FULL");
      CHECK(about.at("tenantId") == "acme");
      CHECK(about.at("tracks").at(0).at("codec") == "H264");
      CHECK(about.at("instances") == 3);
    }
  });
}

TEST_CASE("what is stored is played from where it is") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    CHECK((co_await f.post("/v1/artifacts/clip9",
                           R"({"node_id":"b","type":"clip","path":"/clips/9.mp4","size":7})"))
              .status == 200);
    CHECK(place(co_await f.get("/play/clip9/hls")) ==
          "https://edge-b.example/hls/clip9/index.m3u8?");
    auto all = json_of(co_await f.get("/play/clip9"));
    CHECK(all.at("metadata").at("isLive") == false);
    CHECK(all.at("metadata").at("contentType") == "clip");
    CHECK((co_await f.ask("DELETE", "/v1/artifacts/clip9?node_id=b")).status == 200);
    CHECK((co_await f.get("/play/clip9/hls")).status == 404);
  });
}

TEST_CASE("what cannot be played is refused with a code") {
  with_foghorn([](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    auto refused = [](FoghornVisit& v, std::string target) -> awaitable<std::string> {
      auto reply = co_await v.get(std::move(target));
      co_return fmt::format("{} {}", reply.status, code_of(reply));
    };
    CHECK(co_await refused(f, "/play") == "400 MISSING_VIEW_KEY");
    CHECK(co_await refused(f, "/play/") == "400 MISSING_VIEW_KEY");
    CHECK(co_await refused(f, "/play/%zz") == "400 INVALID_PATH");
    CHECK(co_await refused(f, "/play/demo/hls/../x") == "400 INVALID_PATH");
    CHECK(co_await refused(f, "/play/a%20b") == "400 INVALID_VIEW_KEY");
    CHECK(co_await refused(f, "/play/a%3Ab") == "400 INVALID_VIEW_KEY");
    CHECK(co_await refused(f, "/play/*") == "400 INVALID_VIEW_KEY");
    CHECK(co_await refused(f, "/play/" + std::string(10'000, 'x')) == "400 INVALID_VIEW_KEY");
    CHECK(co_await refused(f, "/play/nobody") == "404 VIEW_KEY_NOT_FOUND");
    CHECK(co_await refused(f, "/play/nobody/hls") == "404 VIEW_KEY_NOT_FOUND");
    CHECK(co_await refused(f, "/play/demo/dash") == "404 PROTOCOL_NOT_AVAILABLE");
    co_await f.post("/v1/nodes/a/mode", R"({"mode":"maintenance"})");
    co_await f.post("/v1/nodes/b/mode", R"({"mode":"maintenance"})");
    auto reply = co_await f.get("/play/demo/hls");
    CHECK(reply.status == 500);
    CHECK(code_of(reply) == "PLAYBACK_RESOLUTION_FAILED");
    CHECK(json_of(reply).at("message") == "Failed to resolve playback endpoint");
    CHECK(!reply.header("retry-after").empty());
    CHECK((co_await f.post("/play/demo", "x")).status == 405);
  });
}

TEST_CASE(
    "where existing deployments need not be matched, a viewer is told why no node can serve it") {
  foghorn::SurfaceTerms terms;
  terms.is_only_here = true;
  terms.policy = balance::Policy::fair;
  with_foghorn(terms, [](FoghornVisit& f) -> awaitable<void> {
    co_await furnish(f);
    CHECK((co_await f.ask("DELETE", "/v1/nodes/c")).status == 200);
    co_await f.post("/v1/nodes/a/mode", R"({"mode":"maintenance"})");
    co_await f.post("/v1/nodes/b/mode", R"({"mode":"maintenance"})");
    auto reply = co_await f.get("/play/demo/hls");
    CHECK(reply.status == 500);
    CHECK(code_of(reply) == "PLAYBACK_RESOLUTION_FAILED");
    CHECK(json_of(reply).at("message") == "all suitable nodes are in maintenance");
  });
}
