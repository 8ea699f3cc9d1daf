#include "federation/view.h"

#include <doctest/doctest.h>

#include "federation/advertise.h"
#include "federation/writer.h"

using namespace warren;
using namespace warren::federation;

namespace {

StreamAd ad(std::string name, std::string tenant = "acme") {
  StreamAd made;
  made.internal_name = std::move(name);
  made.tenant_id = std::move(tenant);
  made.playback_id = "play-" + made.internal_name;
  made.is_live = true;
  made.edges.push_back({"edge-1", "https://edge-1.b.example", "dtsc://edge-1.b.example:4200", true,
                        "FULL", 1e6, 10, 3, 52.1, 4.3});
  return made;
}

}  // namespace

TEST_CASE("a view has what records say, until they expire") {
  View view;
  auto now = Clock::time_point(1h);
  Writing by{"1-2", WallClock::time_point(1000s)};
  auto put = [&](const Record& record) {
    auto done = view.put(now, record, now + ttl_of(record.kind));
    REQUIRE(done);
  };
  put(record_of(by, "b", ad("one")));
  put(record_of(by, "c", ad("one")));
  put(record_of(by, "b", EdgeTelemetry{"edge-1", "https://x", "", 1, 2, 3, 4, 5, 6}));
  put(record_of(by, "b", Replication{"two", "acme", "edge-1", "b", "", "", true}));
  put(record_of(by, "b", StreamLive{"one", "acme", "b", true}));
  ActiveReplication pull{"one", "edge-1", "b", "a", "edge-9", "dtsc://x", "", ""};
  put(record_of(by, "a", pull));
  CHECK(view.ads(now, "one").size() == 2);
  CHECK(view.ads(now, "one")[0].ad->edges[0].geo_lat == 52.1);
  CHECK(*view.stream_of_playback(now, "play-one") == "one");
  CHECK(view.telemetry(now, "b", "edge-1")->bw_limit == 2);
  CHECK(view.is_replicated_at(now, "two", "b"));
  CHECK(!view.is_replicated_at(now, "two", "c"));
  CHECK(*view.live_at(now, "one") == "b");
  CHECK(view.pulled(now, "one")->dest_node_id == "edge-9");
  CHECK(view.size() == 6);
  CHECK(view.ads(now + 15s, "one").empty());
  view.refresh(now + 10s, "b");
  CHECK(view.ads(now + 15s, "one").size() == 1);
  view.expire(now + 30s);
  CHECK(view.size() == 3);  // replications live five minutes, and who is live was refreshed
  view.erase(Kind::active_replications, "one");
  CHECK(!view.pulled(now, "one"));
}

TEST_CASE("a peer that tells too much is not heard beyond its bound") {
  View view({.records_per_peer = 2, .own_records = 1});
  Writing by{"", {}};
  auto now = Clock::now();
  for (auto name : {"one", "two"}) {
    auto put = view.put(now, record_of(by, "b", ad(name)), now + 15s);
    CHECK(put);
  }
  auto refused = view.put(now, record_of(by, "b", ad("three")), now + 15s);
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::overloaded);
  auto again = view.put(now, record_of(by, "b", ad("one")), now + 15s);
  CHECK(again);
  auto other = view.put(now, record_of(by, "c", ad("three")), now + 15s);
  CHECK(other);
}

TEST_CASE("keys are those of existing deployments, braces and all") {
  Writing by{"1-2", WallClock::time_point(1000s)};
  auto record = record_of(by, "b", ad("one"));
  CHECK(key_of("a", record) == "{a}:stream_ad:b:one");
  CHECK(record.value.find(R"("peer_cluster":"b")") != std::string::npos);
  CHECK(record.value.find(R"("epoch":"1-2")") != std::string::npos);
  CHECK(key_of("a", playback_record(ad("one"))) == "{a}:playback_index:play-one");
  CHECK(playback_record(ad("one")).value == "one");
  auto gone = ad("one");
  gone.is_live = false;
  CHECK(record_of(by, "b", gone).value.empty());
  CHECK(leader_key("a") == "{a}:leader:peer_manager");
  CHECK(federation_channel("a") == "foghorn:{a}:federation");
}

TEST_CASE("averages are those of the last half minute, for each node alone") {
  Averages averages;
  auto now = Clock::time_point(1h);
  for (auto [bw, cpu] : {std::pair(1000, 40), std::pair(2000, 60), std::pair(3000, 80)})
    averages.add(now, "edge-1", {double(bw), double(cpu)});
  averages.add(now, "edge-2", {5, 5});
  auto average = averages.of(now, "edge-1");
  REQUIRE(average);
  CHECK(average->bw_available == 2000);
  CHECK(average->cpu_percent == 60);
  averages.add(now + 20s, "edge-1", {7, 7});
  CHECK(averages.of(now + 30s, "edge-1")->bw_available == 7);
  averages.prune(now + 30s);
  CHECK(!averages.of(now, "edge-2"));
}

TEST_CASE("a DTSC address is made of the output of a node") {
  auto url = [](const char* outputs) {
    return dtsc_url(outputs, "https://e1.example:8443/x", "demo");
  };
  CHECK(url(R"({"DTSC":"dtsc://HOST:4200/$"})") == "dtsc://e1.example:4200/live+demo");
  CHECK(url(R"({"DTSC":"dtsc://10.0.0.1:4200"})") == "dtsc://10.0.0.1:4200/live+demo");
  CHECK(url(R"({"HLS":"https://HOST/$"})").empty());
  CHECK(url("not JSON").empty());
  CHECK(host_of("https://[::1]:8080/x") == "[::1]");
}

TEST_CASE("a bulletin survives its way, and what is newer than us is left out") {
  Bulletin bulletin{
      "a1", {{Kind::stream_ad, "b:one", "{}"}, {Kind::remote_live, "one", ""}}, {"b"}};
  auto read = parse_bulletin(to_json(bulletin));
  REQUIRE(read);
  CHECK(read->from == "a1");
  CHECK(read->records == bulletin.records);
  CHECK(read->kept == bulletin.kept);
  auto newer = parse_bulletin(R"({"from":"a1","records":[["holograms:","x","{}"]]})");
  REQUIRE(newer);
  CHECK(newer->records.empty());
  CHECK(!parse_bulletin("{"));
  CHECK(!parse_bulletin("[]"));
}

TEST_CASE("peers are read from one line, and what is wrong is named") {
  auto peers = parse_peers("b=host:18019, c=h1:1|h2:2", "b=acme|zoo");
  REQUIRE(peers);
  REQUIRE(peers->size() == 2);
  CHECK((*peers)[0].cluster == "b");
  CHECK((*peers)[0].tenants == std::set<std::string>{"acme", "zoo"});
  CHECK((*peers)[1].addresses == std::vector<std::string>{"h1:1", "h2:2"});
  auto wrong = [](const char* text, const char* tenants) {
    auto read = parse_peers(text, tenants);
    return read ? std::string() : read.error().what;
  };
  CHECK(wrong("b", "") == "b: use cluster=value");
  CHECK(wrong("b=host", "") == "b: host is not host:port");
  CHECK(wrong("b=h:1,b=h:2", "") == "b: named twice");
  CHECK(wrong("b=h:1", "c=acme") == "c: tenants of a cluster that is not a peer");
  CHECK(!wrong("b*=h:1", "").empty());
}
