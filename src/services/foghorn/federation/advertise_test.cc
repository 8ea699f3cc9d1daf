// What is told and how it is configured, in small.
#include "services/foghorn/federation/advertise.h"

#include <doctest/doctest.h>

#include "services/foghorn/federation/writer.h"

using namespace warren;
using namespace warren::federation;

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
