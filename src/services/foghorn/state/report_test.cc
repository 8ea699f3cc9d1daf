#include "services/foghorn/state/report.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>

using namespace warren;
using namespace warren::foghorn;

namespace {

std::string why(std::string_view json) {
  auto report = parse_report(json);
  return report ? "" : report.error().what;
}

constexpr std::string_view full =
    R"({"cpu_tenths":427,"ram_max":100,"ram_current":50,"up_speed":1,"down_speed":2,"bw_limit":3,
        "latitude":52.1,"longitude":4.3,"location":"x","base_url":"https://n","is_healthy":true,
        "capabilities":{"edge":true,"roles":["edge"]},"storage":{"local_path":"/d"},
        "limits":{"max_transcodes":4,"storage_capacity_bytes":10,"storage_used_bytes":5},
        "outputs_json":"{\"HLS\":\"$\"}","operational_mode":"normal","event_type":"ignored",
        "streams":{"live+a":{"total":3,"inputs":1,"bytes_up":5,"bytes_down":6,"replicated":false},
                   "b":{"viewers":2,"status":"offline"}},
        "artifacts":[{"content_id":"c1","type":"clip","path":"/x","size":5},
                     {"clip_hash":"c2","file_path":"/media/dvr/y","size_bytes":6}]})";

}  // namespace

TEST_CASE("a report says what it says, and nothing of the rest") {
  auto report = parse_report(full);
  if (!report) FAIL(report.error().what);
  CHECK(report->cpu_tenths == 427);
  CHECK(report->cap_edge == true);
  CHECK(!report->cap_ingest);
  CHECK(!report->tags);
  CHECK(report->storage_local == "/d");
  CHECK(report->max_transcodes == 4);
  CHECK(report->outputs->contains("HLS"));
  REQUIRE(report->streams->size() == 2);
  CHECK(report->streams->at("a").total == 3);
  CHECK(!report->streams->at("a").viewers);
  CHECK(report->streams->at("b").viewers == 2);
  REQUIRE(report->artifacts->size() == 2);
  CHECK(report->artifacts->at(1).content_id == "c2");
  CHECK(report->artifacts->at(1).type == "dvr");
  CHECK(report->artifacts->at(1).size == 6);
  auto nothing = parse_report("{}");
  REQUIRE(nothing);
  CHECK(!nothing->streams);
  CHECK(!nothing->is_healthy);
}

TEST_CASE("what is wrong with a report is named") {
  CHECK(why(R"({"cpu_tenths":4294967296})") == "cpu_tenths: 4294967296 is more than 4294967295");
  CHECK(why(R"({"cpu_tenths":-1})") == "cpu_tenths: -1 is less than 0");
  CHECK(why(R"({"bw_limit":-5})") == "bw_limit: -5 is less than 0");
  CHECK(why(R"({"latitude":91})") == "latitude: 91 is more than 90");
  CHECK(why(R"({"longitude":"x"})") == "longitude: is not a finite number");
  CHECK(why(R"({"up_speed":1e999})") != "");
  CHECK(why(R"({"up_speed":NaN})").starts_with("no JSON"));
  CHECK(why(R"({"limits":3})") == "limits: is not an object");
  CHECK(why(R"({"capabilities":{"edge":1}})") == "capabilities.edge: is not true or false");
  CHECK(why(R"({"operational_mode":"asleep"})") ==
        "operational_mode: is not normal, draining or maintenance");
  CHECK(why(R"({"streams":[]})") == "streams: is not an object");
  CHECK(why(R"({"streams":{"a":{"total":-1}}})") == "streams.a: -1 is negative");
  CHECK(why(R"({"streams":{"a":{"total":"1"}}})") == "streams.a.total: is not a whole number");
  CHECK(why(R"({"streams":{"a:b":{}}})") == "streams: has a ':', which an id may not have");
  CHECK(why(R"({"streams":{"a*":{}}})") != "");
  CHECK(why(R"({"streams":{"a b":{}}})") != "");
  CHECK(why(R"({"streams":{"":{}}})") == "streams: is empty");
  CHECK(why(R"({"streams":{"a":{},"live+a":{}}})").contains("the same bare name"));
  CHECK(why(R"({"streams":{")" + std::string(10'000, 'x') + R"(":{}}})") ==
        "streams: 10000 characters are more than 128");
  CHECK(why(R"({"artifacts":[{"content_id":"a b"}]})") != "");
  CHECK(why(R"({"artifacts":[{"content_id":"a","size":-1}]})") ==
        "artifacts.size: is not a whole number, not negative");
  CHECK(why(R"({"artifacts":[7]})") == "artifacts: is not a list of objects");
  CHECK(why(R"({"outputs_json":"{"})").starts_with("outputs_json: no JSON"));
  CHECK(why(R"({"base_url":")" + std::string(5000, 'x') + "\"}") ==
        "base_url: 5000 characters are more than 4096");
  CHECK(why(std::string(5u << 20, ' ')) == "5242880 bytes of JSON are more than 4194304");
  std::string deep(70, '[');
  CHECK(why(R"({"outputs":{"a":)" + deep + std::string(70, ']') + "}}").starts_with("no JSON"));
}

TEST_CASE("a node may say that it uses more than 100 % of its processors") {
  for (auto tenths : {"1000", "1001", "2500", "4294967295"}) {
    auto report = parse_report(fmt::format(R"({{"cpu_tenths":{}}})", tenths));
    REQUIRE(report);
    CHECK(report->cpu_tenths == std::stod(tenths));
  }
}

TEST_CASE("a node may say that it uses more memory, storage or disk than it has") {
  auto report = parse_report(
      R"({"ram_max":1,"ram_current":2,"disk_total_bytes":3,"disk_used_bytes":4,
          "limits":{"storage_capacity_bytes":5,"storage_used_bytes":6}})");
  if (!report) FAIL(report.error().what);
  CHECK(report->ram_current == 2);
  CHECK(report->disk_used_bytes == 4);
  CHECK(report->storage_used_bytes == 6);
}

TEST_CASE("a report that is cut off anywhere is refused") {
  for (std::size_t size = 0; size < full.size(); ++size) CHECK(!parse_report(full.substr(0, size)));
}

TEST_CASE("numbers that JSON cannot have are refused however they came") {
  for (double wrong :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity(), 1e300}) {
    NodeReport report;
    report.latitude = wrong;
    CHECK(!check_report(report));
    report = {};
    report.ram_max = wrong;
    CHECK(!check_report(report));
  }
}

TEST_CASE("bytes that are changed at random are refused, or make a report that may be taken") {
  std::mt19937 random(5);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text(full);
    for (auto changes = random() % 4 + 1; changes > 0; --changes) {
      auto at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 8));
      }
    }
    auto report = parse_report(text);
    if (!report) {
      CHECK(report.error().code == Errc::invalid);
      CHECK(!report.error().what.empty());
      continue;
    }
    ++accepted;
    CHECK(check_report(*report));
  }
  CHECK(accepted > 500);
  CHECK(accepted < 15'000);
}

TEST_CASE("a registration may leave its id to the address it is sent to") {
  auto registration = parse_registration(R"({"host":"10.0.0.1","roles":["edge"],"cap_edge":true})");
  REQUIRE(registration);
  CHECK(registration->node_id.empty());
  CHECK(!check_registration(*registration));
  CHECK(!parse_registration(R"({"node_id":"a:b"})"));
  CHECK(!parse_registration(R"({"node_id":"a","requested_mode":"off"})"));
}
