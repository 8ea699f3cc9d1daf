#include "services/foghorn/state/entities.h"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>

#include "services/foghorn/state/json_fields.h"

using namespace warren;
using namespace warren::foghorn;

namespace {

// Read, written and read again: nothing is lost, and what is written is as given.
template <class Parse>
void check_round_trip(std::string_view text, Parse parse) {
  auto read = parse(text);
  if (!read) FAIL(read.error().what);
  auto written = to_json(*read);
  CHECK(boost::json::parse(written) == boost::json::parse(text));
  auto again = parse(written);
  REQUIRE(again);
  CHECK(to_json(*again) == written);
}

}  // namespace

TEST_CASE("a node is written as existing deployments write it, and what we do not know is kept") {
  check_round_trip(
      R"({"node_id":"n1","base_url":"https://n1.example","tenant_id":"t","cluster_id":"c",
          "is_healthy":true,"is_stale":false,"last_update":"2026-02-11T10:00:00.123456789Z",
          "last_heartbeat":"0001-01-01T00:00:00Z","operational_mode":"draining","latitude":52.1,
          "longitude":-4.25,"location":"Leiden","outputs":{"HLS":"$/hls/"},
          "outputs_raw":"{\"HLS\":\"$/hls/\"}","cpu":42.7,"ram_max":64000000000,
          "ram_current":1,"up_speed":2,"down_speed":3,"bw_limit":4,"cap_ingest":true,
          "cap_edge":true,"cap_storage":true,"cap_processing":true,"roles":["edge","origin"],
          "storage_capacity_bytes":9,"storage_used_bytes":8,"disk_total_bytes":7,
          "disk_used_bytes":6,"storage_local":"/d","storage_bucket":"b","storage_prefix":"p",
          "max_transcodes":5,"current_transcodes":4,"gpu_vendor":"x","gpu_count":3,
          "gpu_mem_mb":2,"gpu_cc":"8.6","port":8080,"dtsc_port":4200,"tags":["a"],
          "config_streams":["live"],"host":"10.0.0.1","pending_redirects":0,
          "probe_verified":true,"arch":{"of":["a","newer",{"peer":1.5}]}})",
      parse_node);
  check_round_trip(
      R"({"node_id":"n","base_url":"","is_healthy":false,"is_stale":true,
          "last_update":"0001-01-01T00:00:00Z","last_heartbeat":"0001-01-01T00:00:00Z",
          "pending_redirects":0})",
      parse_node);
}

TEST_CASE("penalties and inventories in the value of a node are not ours to keep") {
  auto node = parse_node(
      R"({"node_id":"n","add_bandwidth":5,"pending_redirects":7,"artifacts":[{"clip_hash":"x"}],
          "latitude":0,"longitude":0,"outputs_raw":"{\"RTMP\":\"rtmp://x\"}","tags":null})");
  REQUIRE(node);
  CHECK(node->others.empty());
  CHECK(!node->latitude);
  CHECK(node->outputs.contains("RTMP"));
}

TEST_CASE("streams, their instances, artifacts and modes are written as documented") {
  check_round_trip(
      R"({"stream_name":"live+demo","internal_name":"demo","playback_id":"p","node_id":"n1",
          "tenant_id":"t","status":"live","buffer_state":"FULL","tracks":[{"track_id":"v1",
          "codec":"H264","type":"video","bitrate":2500.5,"fps":25,"width":1280,"height":720},
          {"track_id":"a1","codec":"AAC","type":"audio","channels":2,"sample_rate":48000}],
          "issues":"jitter","has_issues":true,"started_at":"2026-01-01T00:00:00Z",
          "last_update":"2026-01-01T00:00:01.5Z","raw_details":{"a":[1,2.25]},"viewers":3,
          "last_track_list":"v1","total_connections":4,"inputs":1,"bytes_up":5,"bytes_down":6,
          "stream_id":"kept"})",
      parse_stream);
  check_round_trip(
      R"({"stream_name":"demo","internal_name":"demo","node_id":"","tenant_id":"",
          "status":"offline","buffer_state":"EMPTY","tracks":null,"has_issues":false,
          "last_update":"0001-01-01T00:00:00Z","viewers":0})",
      parse_stream);
  check_round_trip(
      R"({"internal_name":"a:b","node_id":"n:1","state":{"node_id":"n:1","tenant_id":"t",
          "status":"live","buffer_state":"FULL","last_track_list":"x","viewers":2,"bytes_up":1,
          "bytes_down":2,"total_connections":3,"inputs":1,"replicated":true,
          "last_update":"2026-01-01T00:00:00Z","raw_details":{"dvr_size":1},"newer":1}})",
      parse_instance);
  check_round_trip(
      R"({"content_id":"c1","type":"clip","node_id":"n2","size":5,
          "cached_at":"2026-01-02T00:00:00Z","nodes":[
          {"node_id":"n1","path":"/a","size":4,"cached_at":"2026-01-01T00:00:00Z"},
          {"node_id":"n2","size":5,"cached_at":"2026-01-02T00:00:00Z"}]})",
      parse_artifact);
  check_round_trip(
      R"({"node_id":"n1","mode":"maintenance","set_by":"ann","set_at":"2026-01-01T00:00:00Z"})",
      parse_mode);
  check_round_trip(
      R"({"instance_id":"f1","at":"2026-01-01T00:00:00Z","nodes":{"n1":131072,"n2":1}})",
      parse_penalties);
}

TEST_CASE("an artifact of which only one copy was ever known is read as such") {
  auto artifact = parse_artifact(R"({"content_id":"c","node_id":"n1","size":7,"type":"dvr"})");
  REQUIRE(artifact);
  REQUIRE(artifact->copies.size() == 1);
  CHECK(artifact->copies[0].node_id == "n1");
  CHECK(artifact->copies[0].size == 7);
}

TEST_CASE("what is no entity is refused with the member that is wrong") {
  auto why = [](const auto& result) { return result ? "" : result.error().what; };
  CHECK(why(parse_node("")).starts_with("no JSON"));
  CHECK(why(parse_node("[]")) == "the JSON is no object");
  CHECK(why(parse_node("{}")) == "node_id: is not there");
  CHECK(why(parse_node(R"({"node_id":7})")) == "node_id: is not text");
  CHECK(why(parse_node(R"({"node_id":"n","cpu":"x"})")) == "cpu: is not a finite number");
  CHECK(why(parse_node(R"({"node_id":"n","cpu":1e999})")) != "");
  CHECK(why(parse_node(R"({"node_id":"n","gpu_count":1.5})")) ==
        "gpu_count: is not a whole number");
  CHECK(why(parse_node(R"({"node_id":"n","gpu_count":9999999999})")) != "");
  CHECK(why(parse_node(R"({"node_id":"n","disk_used_bytes":-1})")) != "");
  CHECK(why(parse_node(R"({"node_id":"n","last_update":"yesterday"})")) ==
        "last_update: is not a time as in RFC 3339");
  CHECK(why(parse_stream(R"({"internal_name":"s","tracks":[1]})")) != "");
  CHECK(why(parse_instance(R"({"internal_name":"s"})")) == "node_id: is not there");
  CHECK(why(parse_instance(R"({"internal_name":"s","node_id":"n","state":{"viewers":"1"}})")) ==
        "state.viewers: is not a whole number");
  CHECK(why(parse_mode(R"({"node_id":"n","mode":"asleep"})")) ==
        "mode: is not normal, draining or maintenance");
  CHECK(why(parse_node(std::string(100, '[') + std::string(100, ']'))) != "");
  CHECK(why(parse_node(R"({"node_id":")" + std::string(2u << 20, 'x') + "\"}")) != "");
}

TEST_CASE("times are those of RFC 3339, to the nanosecond") {
  for (auto text : {"2026-02-28T23:59:59Z", "2026-02-28T23:59:59.1Z",
                    "2026-02-28T23:59:59.123456789Z", "1999-12-31T00:00:00.000000001Z"})
    CHECK(to_rfc3339(*parse_rfc3339(text)) == text);
  CHECK(parse_rfc3339("2026-01-01T02:00:00+02:00") == parse_rfc3339("2026-01-01T00:00:00Z"));
  CHECK(parse_rfc3339("2025-12-31T18:30:00-05:30") == parse_rfc3339("2026-01-01T00:00:00Z"));
  CHECK(parse_rfc3339("0001-01-01T00:00:00Z") == WallTime{});
  CHECK(to_rfc3339({}) == "0001-01-01T00:00:00Z");
  for (auto text :
       {"2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01", "x", "2026-01-01T00:00:00",
        "2026-01-01T00:00:00.Z", "2026-01-01T25:00:00Z", "2026-01-01T00:00:00+2:00"})
    CHECK(!parse_rfc3339(text));
}

TEST_CASE("a tidy number is written and read as itself, however it came") {
  for (double number : {0.1, 42.7, -4.123456789, 1e-9, 1234567.891, 5e11, 123456789012.75, -0.0}) {
    auto once = tidy(number);
    CHECK(tidy(once) == once);
    NodeState node;
    node.node_id = "n";
    node.cpu = once;
    auto read = parse_node(to_json(node));
    REQUIRE(read);
    CHECK(read->cpu == once);
  }
}

TEST_CASE("ids have no characters that keys, patterns or addresses give a meaning") {
  const std::vector<std::string> right{"n1",  "edge-1.example", "live+demo",
                                       "näh", "a_b~c",          std::string(128, 'x')};
  const std::vector<std::string> wrong{
      "",    "a:b", "a*",   "a b",  "a\nb", "a?",        "[a",
      "{a}", "a/b", "a\\b", "\x7f", "\xff", "a\xc2\x85", std::string(129, 'x')};
  for (const auto& id : right) CHECK(check_id("id", id));
  for (const auto& id : wrong) CHECK(!check_id("id", id));
  auto long_name = check_id("stream", std::string(10'000, 'x'));
  REQUIRE(!long_name);
  CHECK(long_name.error().what == "stream: 10000 characters are more than 128");
  CHECK(check_id("stream", "a*").error().what == "stream: has a '*', which an id may not have");
}

TEST_CASE("a stream has one bare name, whatever it is asked for as") {
  CHECK(bare_name("live+demo") == "demo");
  CHECK(bare_name("vod+demo") == "demo");
  CHECK(bare_name("demo") == "demo");
  CHECK(bare_name("demo+live") == "demo+live");
}
